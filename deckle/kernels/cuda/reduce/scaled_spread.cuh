#pragma once

// Variance and standard deviation of float64, whose squares may leave its range.
#include <cstdint>

#include "deckle/kernels/cuda/reduce/kinds.cuh"

namespace deckle::kernels::cuda::reduce {

/// Spread of elements times a power of two that the largest of them decides: 1 from 2^-430 to 2^486, so that squares of distances
/// neither overflow nor vanish beside it. A larger element scales what there is anew; what that loses is nothing beside the
/// element.
struct ScaledSpread {
  static constexpr double kTiny = 0x1p-430, kHuge = 0x1p486, kTinyScale = 0x1p800, kHugeScale = 0x1p-600;
  struct Acc {
    Spread::Acc scaled;
    int size;  // 0: all elements are tiny, 1: one is usual, 2: one is huge
  };
  Spread spread;

  __device__ static double scale(int size) { return size == 0 ? kTinyScale : size == 1 ? 1 : kHugeScale; }
  __device__ static void grow(Acc& acc, int size) {
    for (; acc.size < size; ++acc.size) {
      const double step = acc.size == 0 ? 1 / kTinyScale : kHugeScale;
      acc.scaled.mean *= step;
      acc.scaled.squares = acc.scaled.squares * step * step;
    }
  }

  __device__ Acc start() const { return {spread.start(), 0}; }
  __device__ void add(Acc& acc, double x, int64_t i) const {
    grow(acc, (::fabs(x) >= kTiny) + (::fabs(x) > kHuge));  // NaN is NaN in any scale
    spread.add(acc.scaled, x * scale(acc.size), i);
  }
  __device__ Acc merge(Acc a, Acc b) const {
    grow(a, b.size);
    grow(b, a.size);
    return {spread.merge(a.scaled, b.scaled), a.size};
  }
  __device__ void finish(Acc acc, int64_t length, const Outputs& outputs, int64_t row) const {
    const double value = spread.value(acc.scaled, length) / scale(acc.size);
    outputs.first.put(row, spread.root ? value : value / scale(acc.size));
  }
};

}  // namespace deckle::kernels::cuda::reduce
