// The row statistics of the backward (see backward_common.cuh), lse2 and delta = dO . O - dLSE, and the last step of
// all_gradients.
// Memory limits these kernels: one serves both element types and every head dim.
#pragma once

#include "deckle/kernels/cuda/attention/backward_common.cuh"

namespace deckle::kernels::cuda::attention {

/// Heads whose rows one block of the statistics takes.
inline constexpr int kStatisticsHeads = 4;

struct StatisticsArguments {
  BackwardArguments common;
  Element element;
  const void* out;
  const void* grad_out;
  int64_t out_strides[3], grad_out_strides[3];  // batch, row, head
  const float* lse;
  const float* grad_lse;  // null: zero
  int value_dim;
  float lse_unit;  // of lse2: log2 e; with a bias 1
  float* lse2;
  float* delta;
  int list_rows;  // ragged: height of the tiles of the list
  int* counters;  // work counters: set to zero for the kernels that follow
  int counter_count;
};

/// Takes StatisticsArguments: 256 threads for each tile of rows and kStatisticsHeads heads.
const void* row_statistics_kernel();

/// Takes BackwardArguments, Element and the AttentionTensor grad_q: rounds scale times the sums of all_gradients to it, and
/// writes zeros to rows that attend no key. 256 threads for each tile of rows and head.
const void* round_query_gradients_kernel();

/// Takes BackwardArguments, Element and the head dim: adds up what the parts of each kv head have left in key_sums. 256 threads
/// for 1,024 elements of a kv head; grids of (pieces, kv heads, dK and dV).
const void* round_key_gradients_kernel();

}  // namespace deckle::kernels::cuda::attention
