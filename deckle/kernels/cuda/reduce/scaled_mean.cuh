#pragma once

// The mean of float64, whose sum may leave its range though the mean does not.
#include <cstdint>

#include "deckle/kernels/cuda/reduce/kinds.cuh"

namespace deckle::kernels::cuda::reduce {

/// Beside the sum that of elements times 2^-64, which any number of elements leaves finite. It counts where the sum is not: what
/// the factor rounds away is nothing beside such elements.
struct ScaledMean {
  static constexpr double kScale = 0x1p-64;
  struct Acc {
    double sum, scaled;
  };

  __device__ Acc start() const { return {0, 0}; }
  __device__ void add(Acc& acc, double x, int64_t) const {
    acc.sum += x;
    acc.scaled += x * kScale;
  }
  __device__ Acc merge(Acc a, Acc b) const { return {a.sum + b.sum, a.scaled + b.scaled}; }
  __device__ void finish(Acc acc, int64_t length, const Outputs& outputs, int64_t row) const {
    const auto count = static_cast<double>(length);
    outputs.first.put(row, ::isfinite(acc.sum) ? acc.sum / count : acc.scaled / count / kScale);
  }
};

}  // namespace deckle::kernels::cuda::reduce
