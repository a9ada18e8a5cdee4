// The logarithm of the sum of exponentials along one dim.                       In double, of the largest element and the others
#include <limits>

#include "deckle/kernels/cuda/reduce/reduce.cuh"

namespace deckle::kernels::cuda {
namespace {

struct Sum {
  double largest, sum;  // of exp(x - largest)
};

struct LogSumExp {
  using Acc = Sum;
  __device__ Acc start() const { return {-std::numeric_limits<double>::infinity(), 0}; }
  __device__ void add(Acc& acc, double x, int64_t) const { acc = merge(acc, {x, 1}); }
  __device__ Acc merge(Acc a, Acc b) const {
    if (a.sum == 0) return b;
    if (b.sum == 0) return a;
    if (a.largest != a.largest || b.largest != b.largest) return {a.largest + b.largest, 1};
    const bool first = a.largest >= b.largest;
    const Acc &high = first ? a : b, &low = first ? b : a;
    const double share = high.largest == low.largest ? 1 : ::exp(low.largest - high.largest);
    return {high.largest, high.sum + low.sum * share};
  }
  __device__ void finish(Acc acc, int64_t, const reduce::Outputs& outputs, int64_t row) const {
    outputs.first.put(row, ::isinf(acc.largest) ? acc.largest : acc.largest + ::log(acc.sum));
  }
};

}  // namespace

void logsumexp(const Context& context, const View& self, int64_t dim, bool, const View& result) {
  reduce::run<LogSumExp, double>({}, context, self, std::span<const int64_t>(&dim, self.ndim > 0 ? 1 : 0),
                                 {reduce::output_of(result), {}});
}

}  // namespace deckle::kernels::cuda
