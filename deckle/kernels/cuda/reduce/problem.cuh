#pragma once

// What the kernels of a reduction get: where the elements of a row are, and where results go.
#include <cstdint>

#include "deckle/kernels/cpu/reduce/layout.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda::reduce {

using cpu::reduce::Layout;

/// Places of elements by number, as Layout::Dims.
struct Places {
  int count = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t strides[kMaxDims] = {};

  Places() = default;
  explicit Places(const Layout::Dims& dims) : count(dims.count) {
    for (int d = 0; d < count; ++d) {
      sizes[d] = dims.sizes[d];
      strides[d] = dims.strides[d];
    }
  }
  __device__ int64_t offset(int64_t index) const {
    if (count == 1) return index * strides[0];
    int64_t elements = 0;
    for (int d = count - 1; d >= 0; --d) {
      const int64_t quotient = index / sizes[d];
      elements += (index - quotient * sizes[d]) * strides[d];
      index = quotient;
    }
    return elements;
  }
};

/// An output in the order of the rows: contiguous.
struct Output {
  void* data = nullptr;
  DType dtype = DType::float32;

  template <typename T>
  __device__ void put(int64_t row, T value) const {
    pointwise::store<T>(value, data, dtype, row);
  }
};

struct Outputs {
  Output first, second;
};

struct Problem {
  const void* data = nullptr;
  DType dtype = DType::float32;
  Places kept, reduced;
  int64_t rows = 1, length = 1, parts = 1, part_length = 1;
  bool vectors = false;  // the elements of a row are floating, lie one after another, and every part starts at 16 bytes
  Outputs outputs;
};

/// A few elements as one load gives them.
template <typename V_, int kWidth_>
struct Loaded {
  using V = V_;
  static constexpr int kWidth = kWidth_;
  V x[kWidth];
};

/// Places i, i + step, ... below `end`: the loads of kTogether of them, then take(loaded, the first place).
template <int kTogether, typename Load, typename Take>
__device__ __forceinline__ void in_batches(int64_t i, int64_t end, int64_t step, const Load& load, const Take& take) {
  using Each = decltype(load(i));
  for (; i + (kTogether - 1) * step < end; i += kTogether * step) {
    Each each[kTogether];
#pragma unroll
    for (int u = 0; u < kTogether; ++u) each[u] = load(i + u * step);
    take(each, i);
  }
  for (; i < end; i += step) {
    const Each each[1] = {load(i)};
    take(each, i);
  }
}

/// The same with take(loaded) alone; what is left of the last batch is loaded half as many at a time, and so on.
template <int kTogether, typename Index, typename Load, typename Take>
__device__ __forceinline__ void take_loads(Index i, Index end, Index step, const Load& load, const Take& take) {
  for (; i + (kTogether - 1) * step < end; i += kTogether * step) {
    decltype(load(i)) each[kTogether];
#pragma unroll
    for (int u = 0; u < kTogether; ++u) each[u] = load(i + u * step);
    take(each);
  }
  if constexpr (kTogether > 1) take_loads<kTogether / 2>(i, end, step, load, take);
}

/// What the threads of a block have, merged in their order; right in thread 0 of each group of kThreads.
template <class R, int kThreads, typename Acc>
__device__ Acc merge_threads(const R& reduction, Acc acc, Acc* shared) {
  const int lane = static_cast<int>(threadIdx.x) % kThreads;
  Acc* const own = shared + threadIdx.x - lane;
  own[lane] = acc;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if constexpr (kThreads > 32)
      __syncthreads();
    else
      __syncwarp();
    if (lane < half) own[lane] = acc = reduction.merge(own[lane], own[lane + half]);
  }
  return acc;
}

template <class R>
concept TakesFew = requires(const R& reduction) {
  reduction.few(0.0f, 0.0f);
};

/// f(0), f(1), ... f(kCount - 1), halves as floats, as one: pairs of pairs.
template <int kCount, int kFirst = 0, class R, typename F>
__device__ __forceinline__ float few_of(const R& reduction, const F& f) {
  if constexpr (kCount == 1)
    return f(kFirst);
  else
    return reduction.few(few_of<kCount / 2, kFirst>(reduction, f), few_of<kCount / 2, kFirst + kCount / 2>(reduction, f));
}

/// Takes f(0), f(1), ... f(kCount - 1), halves as floats, along: together, unless they leave float on their way.
template <int kCount, class R, typename Acc, typename F>
__device__ __forceinline__ void add_few(const R& reduction, Acc& acc, int64_t i, const F& f) {
  const float few = few_of<kCount>(reduction, f);
  if (reduction.holds(few)) return reduction.add(acc, few, i);
#pragma unroll
  for (int k = 0; k < kCount; ++k) reduction.add(acc, f(k), i);
}

}  // namespace deckle::kernels::cuda::reduce
