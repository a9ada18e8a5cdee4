// The Euclidean norm of each tensor of a list.                                         Sums in double, by the driver of
// reductions
#include <span>

#include "deckle/kernels/cuda/reduce/reduce.cuh"

namespace deckle::kernels::cuda {
namespace {

struct Length {
  using Acc = double;
  __device__ double start() const { return 0; }
  __device__ void add(double& acc, double x, int64_t) const { acc += x * x; }
  __device__ double merge(double a, double b) const { return a + b; }
  __device__ void finish(double acc, int64_t, const reduce::Outputs& outputs, int64_t row) const {
    outputs.first.put(row, ::sqrt(acc));
  }
};

}  // namespace

void foreach_norm(const Context& context, std::span<const View> self, const View& result) {
  for (size_t i = 0; i < self.size(); ++i)
    reduce::run<Length, double>({}, context, self[i], {}, {{result.ptr<double>() + i, DType::float64}, {}});
}

}  // namespace deckle::kernels::cuda
