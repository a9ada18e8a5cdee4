// The ops of two libraries, listed; then a loss of texts of different lengths, with all its derivatives checked.
#include <deckle/deckle.h>

#include <cstdio>
#include <span>

#include "robust/losses/ops/nested/robust.h"
#include "robust/losses/ops/op_table.h"
#include "robust/losses/ops/robust.h"
#include "smooth/ops/op_table.h"

namespace dk = deckle;
namespace losses = robust::losses;

int main() {
  for (const std::span<const dk::OpInfo> table : {smooth::op_table(), losses::op_table()}) {
    for (const dk::OpInfo& op : table)
      std::printf("%-27.*s %.*s\n", static_cast<int>(op.name.size()), op.name.data(), static_cast<int>(op.derivatives.size()),
                  op.derivatives.data());
  }
  dk::Generator generator(7);
  const dk::NestedTensor texts =
      dk::NestedTensor::from_lengths(dk::randn({6, 4}, {.dtype = dk::DType::float64, .generator = &generator}), {3, 0, 2, 1});
  const dk::Tensor target = dk::randn({6, 2}, {.dtype = dk::DType::float64, .generator = &generator});
  const auto loss = [&](const dk::NestedTensor& x) {
    const dk::NestedTensor means = losses::pair_means(losses::joint_size(x, x));
    return losses::robust_loss(losses::log_cosh(means).values(), target, 0.5);
  };
  try {
    dk::gradcheck(loss, texts);
    dk::forward_gradcheck(loss, texts);
    dk::gradgradcheck(loss, texts);
    dk::forward_gradgradcheck(loss, texts);
  } catch (const dk::Error& error) {
    std::fprintf(stderr, "robust: %s\n", error.what());
    return 1;
  }
  std::printf("reverse, forward and second order agree with differences; the loss is %s\n", dk::to_string(loss(texts)).c_str());
  return 0;
}
