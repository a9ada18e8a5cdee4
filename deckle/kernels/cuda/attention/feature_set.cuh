// Which features of scores a problem of Hopper's kernels has.
#pragma once

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/cuda/attention/tile_walks.cuh"

namespace deckle::kernels::cuda::attention {

/// What kernels may have a loop of its own for: one feature alone.
enum class FeatureSet : int32_t { bias, dropout, cap, slopes, any };

inline FeatureSet feature_set(const CudaAttentionProblem& problem) {
  const bool bias = problem.bias.data != nullptr, drops = problem.dropout.threshold != 0, cap = problem.soft_cap != 0,
             slopes = problem.slopes != nullptr;
  if (bias + drops + cap + slopes != 1 || problem.table != nullptr || has_walks(problem)) return FeatureSet::any;
  return bias ? FeatureSet::bias : drops ? FeatureSet::dropout : cap ? FeatureSet::cap : FeatureSet::slopes;
}

}  // namespace deckle::kernels::cuda::attention
