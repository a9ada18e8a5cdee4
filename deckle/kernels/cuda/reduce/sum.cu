// sum and mean over any dims.           Floating elements are added up in double, halves eight at a time in float; integers in
// int64
#include "deckle/kernels/cuda/reduce/reduce.cuh"

namespace deckle::kernels::cuda {
namespace {

template <typename T>
struct Sum {
  using Acc = T;
  bool mean = false;
  __device__ T start() const { return 0; }
  __device__ void add(T& acc, T x, int64_t) const { acc += x; }
  __device__ float few(float x, float y) const { return x + y; }
  __device__ T merge(T a, T b) const { return a + b; }
  __device__ void finish(T acc, int64_t length, const reduce::Outputs& outputs, int64_t row) const {
    outputs.first.put(row, mean ? acc / static_cast<T>(length) : acc);
  }
};

}  // namespace

void sum(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  reduce::run_exact([](auto zero) { return Sum<decltype(zero)>{}; }, context, self, reduce::dims_of(dim),
                    {reduce::output_of(result), {}});
}

void mean(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  reduce::run<Sum<double>, double>({true}, context, self, reduce::dims_of(dim), {reduce::output_of(result), {}});
}

}  // namespace deckle::kernels::cuda
