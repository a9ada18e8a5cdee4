// Dropout by the contract of docs/attention.md, for the 16 scores of a thread.
#pragma once

#include "deckle/base/philox.h"
#include "deckle/kernels/cuda/general_attention/scores.cuh"

namespace deckle::kernels::cuda::general {

struct Words {
  uint32_t word[4];
};

/// The words that decide about row i and column j, counted over all shards.
__device__ inline Words dropout_words(const Call& call, const Head& head, int64_t i, int64_t j) {
  const AttentionDropout& d = call.p.dropout;
  const auto a = static_cast<uint32_t>((i & 7) >> 1), c = static_cast<uint32_t>((j & 7) >> 1);
  const uint32_t key0 = call.made_key != nullptr ? call.made_key[0] : call.dropout_key[0];
  const uint32_t key1 = call.made_key != nullptr ? call.made_key[1] : call.dropout_key[1];
  Words words{{static_cast<uint32_t>(i >> 4), static_cast<uint32_t>(j >> 4),
               static_cast<uint32_t>(head.head + d.first_head) << 4 | a << 2 | c,
               static_cast<uint32_t>(head.sequence + d.first_sequence)}};
  philox::rounds<7>(words.word, key0, key1);
  return words;
}

__device__ __forceinline__ bool keeps(const Call& call, const Words& words, int64_t i, int64_t j) {
  const int byte = static_cast<int>((i >> 3 & 1) + 2 * (j >> 3 & 1));
  const uint32_t word = j & 1 ? (i & 1 ? words.word[3] : words.word[2]) : (i & 1 ? words.word[1] : words.word[0]);
  return static_cast<int>(word >> (8 * byte) & 255) >= call.p.dropout.threshold;
}

/// Bit 4 r + c: whether the probability of this thread's query r and key c is kept; all without dropout.
__device__ inline uint32_t kept_pairs(const Call& call, const Head& head, Place at) {
  const AttentionDropout& d = call.p.dropout;
  if (d.threshold == 0) return 0xffff;
  const int64_t row = at.row + d.first_row, key = at.key + d.first_column;
  const bool one_call = row % 16 == 0 && key % 16 == 0;
  Words words = dropout_words(call, head, row + query_of(0), key + key_of(0));
  uint32_t kept = 0;
#pragma unroll 1
  for (int n = 0; n < kSide * kSide; ++n) {
    const int64_t i = row + query_of(n / kSide), j = key + key_of(n % kSide);
    if (!one_call) words = dropout_words(call, head, i, j);
    if (keeps(call, words, i, j)) kept |= 1u << n;
  }
  return kept;
}

template <typename T>
__device__ __forceinline__ T dropout_factor(const AttentionProblem& p) {
  const int threshold = p.dropout.threshold;
  return threshold == 0 ? T(1) : threshold == 256 ? T(0) : T(256) / static_cast<T>(256 - threshold);
}

/// Zeroes what is not kept.
template <typename T>
__device__ __forceinline__ void drop(Tile<T>& tile, uint32_t kept) {
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
#pragma unroll
    for (int c = 0; c < kSide; ++c) {
      if (!(kept >> (kSide * r + c) & 1)) tile[r][c] = T(0);
    }
  }
}

}  // namespace deckle::kernels::cuda::general
