// The gradient of a bias as the sum of dS that the kernel of all gradients left in memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/cuda/attention/ragged_bias.h"
#include "deckle/kernels/cuda/attention/score_gradients.h"

namespace deckle::kernels::cuda::attention {

/// Elements of the float32 sums that add_bias_gradient takes where several launches add to one gradient.
int64_t bias_sum_elements(const AttentionSizes& sizes, const CudaAttentionPlane& grad_bias);

/// Adds dS of `heads` heads to the gradient of the bias. Where it is one for all heads, launches follow each other: sums begin
/// with the first, lie in `sums` between them, and are rounded by the last. All of it is written, zeros too. One launch.
struct BiasSum {
  int unit, heads;
  bool first = true, last = true;
  float* sums = nullptr;
};
void add_bias_gradient(const AttentionBackward& arguments, const BiasPanels& panels, const BiasSum& sum, cudaStream_t stream);

/// Sums dS of a turn (`from`, score_gradients.h) to all of its part of the gradient of the bias, in a fixed order. Where several
/// turns add to one part, `sums` are kept between them. One launch.
void sum_score_gradients(const AttentionBackward& arguments, const CudaAttentionPlane& from, const ScoreTurn& turn, float* sums,
                         cudaStream_t stream);

}  // namespace deckle::kernels::cuda::attention
