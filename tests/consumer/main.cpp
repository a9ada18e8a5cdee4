// Uses the installed headers and library as a stranger would: ragged attention, forward mode over it, reverse mode.
#include <deckle/deckle.h>

#include <cmath>
#include <cstdio>

namespace dk = deckle;

int main() {
  dk::Generator generator(7);
  const auto random = [&] {
    return dk::NestedTensor::from_lengths(dk::randn({9, 2, 8}, {.dtype = dk::DType::float64, .generator = &generator}),
                                          {4, 0, 5});
  };
  const dk::NestedTensor q = random(), k = random(), v = random(), direction = random(), weights = random();
  const dk::AttentionOptions causal{.mask = dk::masks::causal()};
  const auto f = [&](const dk::NestedTensor& x) { return dk::attention(x, k, v, causal); };

  // <weights, J direction> by forward mode and by reverse mode must agree.
  const auto [out, tangent] = dk::jvp(f, q, direction);
  const auto [again, gradient] = dk::vjp(f, q, weights);
  const double forward = dk::sum(tangent.values() * weights.values()).item();
  const double reverse = dk::sum(gradient.values() * direction.values()).item();
  std::printf("forward %.15g, reverse %.15g\n", forward, reverse);
  return std::abs(forward - reverse) <= 1e-12 * std::abs(forward) && forward != 0 ? 0 : 1;
}
