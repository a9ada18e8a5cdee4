// What makes scores more than scale q k, or drops some of them: soft cap, slopes (ALiBi), dropout. Of one tile of a warp's 16
// rows, in the accumulator layout, with queries or keys as rows.
//
//   z = cap(scale q k) - slope |distance|      cap(y) = c tanh(y / c)      cap'(y) = 1 - tanh(y / c)^2
#pragma once

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/cuda/arch/warp.cuh"

namespace deckle::kernels::cuda::attention::portable {

inline bool has_features(const CudaAttentionProblem& problem) {
  return problem.soft_cap != 0 || problem.slopes != nullptr || problem.dropout.threshold != 0;
}

struct ScoreFeatures {
  float scale, cap, inverse_cap;  // cap = 0: none
  const float* slopes;            // null: none
  int threshold;                  // of dropout; 0: none
  float keep_factor;
  uint32_t key[2], first_sequence, first_head, first_row_block, first_column_block;
};

ScoreFeatures score_features(const CudaAttentionProblem& problem);

/// Those of one head of one sequence.
class Scores {
 public:
  /// `offset`: of query row 0's position in keys.
  __device__ __forceinline__ Scores(const ScoreFeatures& features, int sequence, int head, int offset)
      : features_(features), sequence_(sequence), head_(head), offset_(offset) {
    slope_ = features.slopes != nullptr ? features.slopes[head] : 0.0f;
  }

  /// z of a product q k at a distance of positions, and cap' there.
  __device__ __forceinline__ float score(float product, float distance, float& cap_slope) const {
    float z = product * features_.scale;
    cap_slope = 1.0f;
    if (features_.cap > 0.0f) {
      // tanh |x| = 1 - 2 / (1 + e^(2 |x|)).
      const float e = arch::exp2(fabsf(z * features_.inverse_cap) * 2.8853900817779268f);
      const float tanh = copysignf(1.0f - 2.0f * arch::reciprocal(1.0f + e), z);
      z = features_.cap * tanh;
      cap_slope = 1.0f - tanh * tanh;
    }
    return z - slope_ * distance;
  }

  /// Position of the query less that of the key; exact, as there are fewer than 2^24 of either.
  __device__ __forceinline__ float position(int query, int key) const { return static_cast<float>(query + offset_ - key); }

  __device__ __forceinline__ bool drops() const { return features_.threshold != 0; }

  /// Bits of the accumulators that are kept, of 16 rows from `row` on and of the 32 columns from `column` on are kept; both
  /// multiples of 16 and
  /// 32. All lanes call. Two lanes that need the same call of the generator share two of them.
  template <bool rows_are_queries>
  __device__ __forceinline__ uint32_t keep(int row, int column) const {
    const int lane = threadIdx.x & 31, upper = (lane >> 2) & 1;
    const uint32_t of_row = row / 16 + (rows_are_queries ? features_.first_row_block : features_.first_column_block);
    const uint32_t of_column =
        column / 16 + upper + (rows_are_queries ? features_.first_column_block : features_.first_row_block);
    const uint32_t row_pair = lane >> 3, column_pair = lane & 3;
    uint32_t w[4] = {
        rows_are_queries ? of_row : of_column, rows_are_queries ? of_column : of_row,
        (head_ + features_.first_head) << 4 | (rows_are_queries ? row_pair << 2 | column_pair : column_pair << 2 | row_pair),
        sequence_ + features_.first_sequence};
    generate(w);
    // Words of this lane's row, by the parity of the column: 0 and 2 or 1 and 3 where rows are queries, else 0 and 1 or 2 and 3.
    const auto word = [&](int parity_of_row, int parity_of_column) {
      const int even = rows_are_queries ? 2 * parity_of_column : parity_of_column, odd = rows_are_queries ? 1 : 2;
      return parity_of_row ? w[even + odd] : w[even];
    };
    uint32_t words[2][2];  // of the first and the second 16 columns
#pragma unroll
    for (int parity = 0; parity < 2; ++parity) {
      const uint32_t mine = upper ? word(1, parity) : word(0, parity);
      const uint32_t other = __shfl_xor_sync(~0u, upper ? word(0, parity) : word(1, parity), 4);
      words[0][parity] = upper ? other : mine;
      words[1][parity] = upper ? mine : other;
    }
    uint32_t kept = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int half = (i >> 1) & 1, eight = (i >> 2) & 1, byte = rows_are_queries ? half + 2 * eight : eight + 2 * half;
      kept |= static_cast<int>(words[i >> 3][i & 1] >> (8 * byte) & 0xff) >= features_.threshold ? 1u << i : 0u;
    }
    return kept;
  }

 private:
  // Philox4x32, seven rounds.
  __device__ __forceinline__ void generate(uint32_t (&c)[4]) const {
    uint32_t key0 = features_.key[0], key1 = features_.key[1];
#pragma unroll
    for (int round = 0; round < 7; ++round) {
      const uint64_t a = uint64_t{0xD2511F53u} * c[0], b = uint64_t{0xCD9E8D57u} * c[2];
      c[0] = static_cast<uint32_t>(b >> 32) ^ c[1] ^ key0;
      c[1] = static_cast<uint32_t>(b);
      c[2] = static_cast<uint32_t>(a >> 32) ^ c[3] ^ key1;
      c[3] = static_cast<uint32_t>(a);
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
  }

  const ScoreFeatures& features_;
  int sequence_, head_, offset_;
  float slope_;
};

}  // namespace deckle::kernels::cuda::attention::portable
