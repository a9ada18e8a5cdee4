// amax and amin over any dims.                                                  Reads every element once; a NaN wins
#include "deckle/kernels/cuda/reduce/kinds.cuh"

namespace deckle::kernels::cuda {
namespace {

void extremum(bool largest, const Context& context, const View& self, const std::optional<std::span<const int64_t>>& dim,
              const View& result) {
  reduce::run_exact([&](auto zero) { return reduce::extremum_of<decltype(zero)>(largest, self.dtype); }, context, self,
                    reduce::dims_of(dim), {reduce::output_of(result), {}});
}

}  // namespace

void amax(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  extremum(true, context, self, dim, result);
}
void amin(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  extremum(false, context, self, dim, result);
}

}  // namespace deckle::kernels::cuda
