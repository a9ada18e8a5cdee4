#pragma once

// A row by a group of threads: a warp, or a block of 256 for long ones. Every thread gets the sum or maximum of all, formed in an
// order that the size of the group alone decides.
#include <cstdint>
#include <limits>

#include "deckle/kernels/cuda/reduce/reduce.cuh"

namespace deckle::kernels::cuda::reduce {

inline constexpr int64_t kShortRow = 1024;  // elements, up to which a warp takes a row

template <int kThreads>
struct Group {
  double* shared;  // of the block, one number for each thread

  __device__ int lane() const { return static_cast<int>(threadIdx.x) % kThreads; }
  __device__ static int64_t number() { return (static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x) / kThreads; }
  __device__ static void wait() {
    if constexpr (kThreads > 32)
      __syncthreads();
    else
      __syncwarp();
  }

  template <typename Merge>
  __device__ double all(double x, Merge merge) const {
    double* const own = shared + threadIdx.x - lane();
    own[lane()] = x;
    for (int half = kThreads / 2; half > 0; half /= 2) {
      wait();
      if (lane() < half) own[lane()] = merge(own[lane()], own[lane() + half]);
    }
    wait();
    const double result = own[0];
    wait();
    return result;
  }
  __device__ double sum(double x) const {
    return all(x, [](double a, double b) { return a + b; });
  }
  /// A NaN wins.
  __device__ double max(double x) const {
    return all(x, [](double a, double b) { return a != a || a > b ? a : b; });
  }
};

/// Rows of n elements, at places of their own: element i of row r is at kept.offset(r) + i * step.
struct Rows {
  char* data = nullptr;
  DType dtype = DType::float32;
  Places kept;
  int64_t step = 1;

  Rows() = default;
  /// Along one dim of a view of any strides.
  Rows(const View& view, int64_t dim) : data(static_cast<char*>(view.data)), dtype(view.dtype) {
    if (view.ndim == 0) return;
    kept = Places(Layout(view, dim).kept);
    step = view.strides[dim];
  }
  __device__ int64_t start(int64_t row) const { return kept.offset(row); }
  template <typename T>
  __device__ T get(int64_t start, int64_t i) const {
    return pointwise::load<T>(data, dtype, start + i * step);
  }
  template <typename T>
  __device__ void put(T value, int64_t start, int64_t i) const {
    pointwise::store<T>(value, data, dtype, start + i * step);
  }
};

/// Calls launch(compute tag, group tag, blocks): float or double arithmetic, a warp or a block a row.
template <typename Launch>
void for_rows(DType dtype, int64_t rows, int64_t n, const Launch& launch) {
  const auto with_type = [&](auto type) {
    if (n <= kShortRow)
      launch(type, std::integral_constant<int, 32>(), blocks_of(rows, 8));
    else
      launch(type, std::integral_constant<int, 256>(), blocks_of(rows, 1));
  };
  if (dtype == DType::float64)
    with_type(double());
  else
    with_type(float());
}

}  // namespace deckle::kernels::cuda::reduce
