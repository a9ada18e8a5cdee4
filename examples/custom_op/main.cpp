// Two ops that Deckle does not have, and all their derivatives checked. Exit code 0: they are right.
#include <deckle/deckle.h>

#include <cstdio>
#include <vector>

#include "mine/ops/squash.h"

namespace dk = deckle;

int main() {
  dk::Generator generator(7);
  const dk::Tensor x = dk::randn({3, 4}, {.dtype = dk::DType::float64, .generator = &generator});
  const auto model = [](const dk::Tensor& input) { return mine::squash(mine::reversed_rows(input), 2.5); };
  try {
    dk::gradcheck(model, x);
    dk::forward_gradcheck(model, x);
    dk::gradgradcheck(model, x);
    dk::forward_gradgradcheck(model, x);
  } catch (const dk::Error& error) {
    std::fprintf(stderr, "custom_op: %s\n", error.what());
    return 1;
  }
  std::printf("reverse, forward and second order of squash(reversed_rows(x)) agree with differences\n%s\n",
              dk::to_string(model(x)).c_str());
  return 0;
}
