// amax and amin over any dims.                                                  Reads every element once; a NaN wins
#include <limits>

#include "deckle/kernels/cuda/reduce/reduce.cuh"

namespace deckle::kernels::cuda {
namespace {

template <typename T>
struct Extremum {
  using Acc = T;
  bool largest = true;
  __device__ T start() const {
    using Limits = std::numeric_limits<T>;
    if constexpr (Limits::has_infinity)
      return largest ? -Limits::infinity() : Limits::infinity();
    else
      return largest ? Limits::lowest() : Limits::max();
  }
  __device__ void add(T& acc, T x, int64_t) const { acc = merge(acc, x); }
  __device__ float few(float x, float y) const { return x != x || (largest ? x > y : x < y) ? x : y; }
  __device__ T merge(T a, T b) const { return a != a || (largest ? a > b : a < b) ? a : b; }
  __device__ void finish(T acc, int64_t, const reduce::Outputs& outputs, int64_t row) const { outputs.first.put(row, acc); }
};

void extremum(bool largest, const Context& context, const View& self, const std::optional<std::span<const int64_t>>& dim,
              const View& result) {
  reduce::run_exact([largest](auto zero) { return Extremum<decltype(zero)>{largest}; }, context, self, reduce::dims_of(dim),
                    {reduce::output_of(result), {}});
}

}  // namespace

void amax(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  extremum(true, context, self, dim, result);
}
void amin(const Context& context, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  extremum(false, context, self, dim, result);
}

}  // namespace deckle::kernels::cuda
