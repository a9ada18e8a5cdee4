// The logarithm of the sum of exponentials along one dim.                       In double, of the largest element and the others
#include "deckle/kernels/cuda/reduce/kinds.cuh"

namespace deckle::kernels::cuda {

void logsumexp(const Context& context, const View& self, int64_t dim, bool, const View& result) {
  reduce::run<reduce::LogSumExp, double>({}, context, self, std::span<const int64_t>(&dim, self.ndim > 0 ? 1 : 0),
                                         {reduce::output_of(result), {}});
}

}  // namespace deckle::kernels::cuda
