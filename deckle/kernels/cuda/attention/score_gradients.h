// dS of all heads and sequences of a dense batch, kept in memory for the gradient of a bias that is a sum over heads or
// sequences: the kernel of all gradients stores it as it would the gradient of a bias of their full shape, and
// sum_score_gradients (ragged_bias.h) adds it up.
#pragma once

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda::attention {

inline constexpr int kScoreChunk = 8;  // keys of 16 bytes, of which a row has a whole number

/// Where it lies in `memory`: a plane for each head of each sequence.
inline CudaAttentionPlane score_gradients(const AttentionSizes& sizes, void* memory) {
  CudaAttentionPlane plane;
  plane.data = memory;
  plane.rows = static_cast<int32_t>(sizes.query_rows);
  plane.columns = static_cast<int32_t>(sizes.key_rows);
  plane.column_stride = 1;
  plane.row_stride = (sizes.key_rows + kScoreChunk - 1) / kScoreChunk * kScoreChunk;
  plane.head_stride = plane.row_stride * sizes.query_rows;
  plane.sequence_stride = plane.head_stride * sizes.heads;
  return plane;
}

inline int64_t score_gradients_bytes(const AttentionSizes& sizes) {
  return int64_t{sizeof(uint16_t)} * score_gradients(sizes, nullptr).sequence_stride * sizes.batch;
}

}  // namespace deckle::kernels::cuda::attention
