// max, min, argmax and argmin along one dim.                   The first of equal elements; a NaN wins, the first of them
#include "deckle/kernels/cuda/reduce/kinds.cuh"

namespace deckle::kernels::cuda {
namespace {

void place(bool largest, bool values, const Context& context, const View& self, std::optional<int64_t> dim,
           const reduce::Outputs& outputs) {
  const int64_t along = dim.value_or(0);
  const bool one = dim && self.ndim > 0;
  reduce::run_exact(
      [=](auto zero) {
        return reduce::Place<decltype(zero)>{largest, values};
      },
      context, self, one ? std::span<const int64_t>(&along, 1) : std::span<const int64_t>(), outputs);
}

}  // namespace

void max(const Context& context, const View& self, int64_t dim, bool, const View& values, const View& indices) {
  place(true, true, context, self, dim, {reduce::output_of(values), reduce::output_of(indices)});
}
void min(const Context& context, const View& self, int64_t dim, bool, const View& values, const View& indices) {
  place(false, true, context, self, dim, {reduce::output_of(values), reduce::output_of(indices)});
}
void argmax(const Context& context, const View& self, std::optional<int64_t> dim, bool, const View& result) {
  place(true, false, context, self, dim, {reduce::output_of(result), {}});
}
void argmin(const Context& context, const View& self, std::optional<int64_t> dim, bool, const View& result) {
  place(false, false, context, self, dim, {reduce::output_of(result), {}});
}

}  // namespace deckle::kernels::cuda
