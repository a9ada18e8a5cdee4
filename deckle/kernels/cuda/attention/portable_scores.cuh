// What makes scores more than scale q k, or drops some of them: soft cap, slopes (ALiBi), dropout; and, as a step further that
// kernels are compiled for, bias, table by distance, masks of ranges and of bytes. Of one tile of a warp's 16 rows, in the
// accumulator layout, with queries or keys as rows.
//
//   z = cap(scale q k) + bias - slope |distance| + table[distance]
//   cap(y) = c tanh(y / c)      cap'(y) = 1 - tanh(y / c)^2
#pragma once

#include <cstdint>

#include "deckle/base/philox.h"
#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/cuda/arch/warp.cuh"
#include "deckle/kernels/cuda/attention/planes.cuh"

namespace deckle::kernels::cuda::attention::portable {

using arch::Element;

/// What a kernel knows of scores: scale q k alone; soft cap, slopes, dropout; all there is.
enum class Scoring : int32_t { product, scores, planes };

inline Scoring scoring_of(const CudaAttentionProblem& problem) {
  if (problem.bias.data != nullptr || problem.table != nullptr || problem.ranges.bounds != nullptr ||
      problem.forbidden.data != nullptr)
    return Scoring::planes;
  return problem.soft_cap != 0 || problem.slopes != nullptr || problem.dropout.threshold != 0 ? Scoring::scores
                                                                                              : Scoring::product;
}

struct ScoreFeatures {
  float scale, cap, inverse_cap;  // cap = 0: none
  const float* slopes;            // null: none
  int threshold;                  // of dropout; 0: none
  float keep_factor;
  uint32_t complement;       // 256 - threshold in each byte
  const uint32_t* made_key;  // null: the next
  uint32_t key[2], first_sequence, first_head, first_row_block, first_column_block;
  CudaAttentionPlane bias, forbidden;  // without data: none
  bool bias_before_cap;
  const float* table;  // null: none
  int reach;
  AttentionRanges ranges;  // without bounds: none
};

ScoreFeatures score_features(const CudaAttentionProblem& problem);

/// The weight e^(z - lse) of a score, at most 1. The difference is exact where both are far from 0, as by a finite bias on each
/// key that stands for -inf; scaled before, either would be rounded by more than exponents hold. It is at most 0, but for its
/// roundings: those of lse, and of z, which may be the next number where the forward summed q k in another order. That number
/// may be 2^104 away, so its sign is not trusted.
__device__ __forceinline__ float weight_of(float z, float lse) { return arch::exp2(fabsf(z - lse) * -1.4426950408889634f); }

/// What dropout keeps of one head of one sequence, by the definition in docs/attention.md.
class Dropout {
 public:
  __device__ __forceinline__ Dropout(const ScoreFeatures& features, int sequence, int head)
      : features_(features), sequence_(sequence), head_(head) {
    const bool made = features_.made_key != nullptr;
    key0_ = made ? features_.made_key[0] : features_.key[0];
    key1_ = made ? features_.made_key[1] : features_.key[1];
  }

  __device__ __forceinline__ bool drops() const { return features_.threshold != 0; }

  /// Of 16 rows from `row` and 32 columns from `column` on, both multiples of 16: flags[m] tells of columns 16m.. by the upper
  /// two bits of byte half + 2 eight (rows are queries; else eight + 2 half): whether the accumulators of row + 8 half and column
  /// + 8 eight are kept, the upper bit of the even column, the other of the odd one. The lower six mean nothing. All lanes call.
  /// Two lanes that need the same call of the generator share two.
  template <bool rows_are_queries>
  __device__ __forceinline__ void flags(uint32_t (&flags)[2], int row, int column) const {
    const int lane = threadIdx.x & 31, upper = (lane >> 2) & 1;
    const uint32_t of_row = row / 16 + (rows_are_queries ? features_.first_row_block : features_.first_column_block);
    const uint32_t of_column =
        column / 16 + upper + (rows_are_queries ? features_.first_column_block : features_.first_row_block);
    const uint32_t row_pair = lane >> 3, column_pair = lane & 3;
    uint32_t w[4] = {
        rows_are_queries ? of_row : of_column, rows_are_queries ? of_column : of_row,
        (head_ + features_.first_head) << 4 | (rows_are_queries ? row_pair << 2 | column_pair : column_pair << 2 | row_pair),
        sequence_ + features_.first_sequence};
    philox::rounds<7>(w, key0_, key1_);
    compare(w, features_.complement);
    // Of a row's parity, words 0 and 2 or 1 and 3 where rows are queries, else 0 and 1 or 2 and 3.
    const auto both = [](uint32_t even, uint32_t odd) { return (even & 0x80808080u) | (odd >> 1 & 0x7f7f7f7fu); };
    const uint32_t of_even = both(w[0], w[rows_are_queries ? 2 : 1]), of_odd = both(w[rows_are_queries ? 1 : 2], w[3]);
    const uint32_t mine = upper ? of_odd : of_even, other = __shfl_xor_sync(~0u, upper ? of_even : of_odd, 4);
    flags[0] = upper ? other : mine;
    flags[1] = upper ? mine : other;
  }

  /// The upper bits of bytes become whether they are kept. A byte u is if u >= threshold: if u + (256 - threshold) carries.
  static __device__ __forceinline__ void compare(uint32_t (&w)[4], uint32_t complement) {
    const uint32_t low = complement & 0x7f7f7f7fu;
#pragma unroll
    for (uint32_t& u : w) {
      const uint32_t carry = (u & 0x7f7f7f7fu) + low;
      u = ((u | complement) & carry) | (u & complement);
    }
  }

  /// flags() of 32 columns in one word, of the words of this lane's call: columns 0.. by the upper two bits of bytes,
  /// columns 16.. by the next two. The lower four mean nothing. All lanes call; `w` is overwritten.
  template <bool rows_are_queries>
  static __device__ __forceinline__ uint32_t pair_flags(uint32_t (&w)[4], uint32_t complement) {
    compare(w, complement);
    const auto choose = [](uint32_t a, uint32_t b, uint32_t of_a) { return (a & of_a) | (b & ~of_a); };
    uint32_t mine = choose(w[0], w[rows_are_queries ? 2 : 1] >> 1, 0x80808080u);
    mine = choose(mine, w[rows_are_queries ? 1 : 2] >> 2, 0xc0c0c0c0u);
    mine = choose(mine, w[3] >> 3, 0xe0e0e0e0u);
    // This lane's rows are even, and its call is of columns 0.., or both are the other way round.
    const bool upper = (threadIdx.x & 4) != 0;
    const uint32_t other = __shfl_xor_sync(~0u, mine, 4);
    return choose(mine, __funnelshift_l(other, other, upper ? 2 : 30), upper ? 0x3f3f3f3fu : 0xc0c0c0c0u);
  }

  /// The same as bits of the accumulators.
  template <bool rows_are_queries>
  __device__ __forceinline__ uint32_t keep(int row, int column) const {
    uint32_t of[2], kept = 0;
    flags<rows_are_queries>(of, row, column);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int half = (i >> 1) & 1, eight = (i >> 2) & 1, byte = rows_are_queries ? half + 2 * eight : eight + 2 * half;
      kept |= of[i >> 3] & ((i & 1 ? 0x40u : 0x80u) << (8 * byte)) ? 1u << i : 0u;
    }
    return kept;
  }

  /// Of one pair, by a call of the generator of its own.
  __device__ __forceinline__ bool keeps(int query, int key) const {
    const uint32_t i = query, j = key;  // the first row and column are multiples of 16, of which 32 bits hold the block alone
    uint32_t w[4] = {(i >> 4) + features_.first_row_block, (j >> 4) + features_.first_column_block,
                     (head_ + features_.first_head) << 4 | (i & 7) >> 1 << 2 | (j & 7) >> 1,
                     sequence_ + features_.first_sequence};
    philox::rounds<7>(w, key0_, key1_);
    const uint32_t even = j & 1 ? w[2] : w[0], odd = j & 1 ? w[3] : w[1];
    const uint32_t byte = (i >> 3 & 1) + 2 * (j >> 3 & 1);
    return static_cast<int>((i & 1 ? odd : even) >> (8 * byte) & 0xff) >= features_.threshold;
  }

 protected:
  const ScoreFeatures& features_;
  int sequence_, head_;

 private:
  uint32_t key0_, key1_;
};

/// The generator where only the second word of the counter changes, as the key block does along a query's walk: what the first
/// three rounds do with the other three words is done once.
class WalkedPhilox {
 public:
  WalkedPhilox() = default;
  __device__ __forceinline__ WalkedPhilox(uint32_t c0, uint32_t c2, uint32_t c3, uint32_t key0, uint32_t key1) {
    const uint64_t a1 = uint64_t{kA} * c0, b1 = uint64_t{kB} * c2;
    first_ = high(b1) ^ key0;
    const uint64_t b2 = uint64_t{kB} * (high(a1) ^ c3 ^ key1);
    next(key0, key1);
    second_ = low(a1) ^ key1;
    const uint64_t a3 = uint64_t{kA} * (high(b2) ^ low(b1) ^ key0);
    next(key0, key1);
    third_[0] = low(b2) ^ key0;
    third_[1] = high(a3) ^ key1;
    third_[2] = low(a3);
    next(key0, key1);
    key0_ = key0;
    key1_ = key1;
  }

  /// Philox-7 of the counter with `c1`.
  __device__ __forceinline__ void draw(uint32_t (&w)[4], uint32_t c1) const {
    const uint64_t a2 = uint64_t{kA} * (first_ ^ c1), b3 = uint64_t{kB} * (high(a2) ^ second_);
    w[0] = high(b3) ^ third_[0];
    w[1] = low(b3);
    w[2] = low(a2) ^ third_[1];
    w[3] = third_[2];
    philox::rounds<4>(w, key0_, key1_);
  }

 private:
  static constexpr uint32_t kA = philox::kFactor0, kB = philox::kFactor1;
  static __device__ __forceinline__ uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
  static __device__ __forceinline__ uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
  static __device__ __forceinline__ void next(uint32_t& key0, uint32_t& key1) {
    key0 += philox::kStep0;
    key1 += philox::kStep1;
  }

  uint32_t first_, second_, third_[3], key0_, key1_;
};

/// Flags of dropout of a tile of `columns` columns, see Dropout::flags: those of 16 columns are two bits of each byte, so four
/// times 16 columns are a word.
template <int columns>
struct KeptFlags {
  static constexpr int blocks = columns / 16, words = (blocks + 3) / 4;
  uint32_t word[words];

  __device__ __forceinline__ void fill() {
#pragma unroll
    for (uint32_t& w : word) w = ~0u;
  }
  /// Of columns 16 block.., one block after the other.
  __device__ __forceinline__ void add(int block, uint32_t flags) {
    uint32_t& w = word[block / 4];
    w = block % 4 == 0 ? flags : (flags & 0xc0c0c0c0u) | (w >> 2 & 0x3f3f3f3fu);
  }
  /// Of columns 32 pair.., by pair_flags; then only at_pair tells them.
  __device__ __forceinline__ void add_pair(int pair, uint32_t flags) {
    uint32_t& w = word[pair / 2];
    w = pair % 2 == 0 ? flags : (w & 0xf0f0f0f0u) | (flags >> 4 & 0x0f0f0f0fu);
  }
  __device__ __forceinline__ uint32_t at_pair(int block, int parity) const {
    return word[block / 4] << (2 * (block % 4) + parity);
  }
  /// Those of even columns (odd: parity 1) as upper bits of the bytes.
  __device__ __forceinline__ uint32_t at(int block, int parity) const {
    const int last = (blocks - block / 4 * 4 < 4 ? blocks - block / 4 * 4 : 4) - 1;
    return word[block / 4] << (2 * (last - block % 4) + parity);
  }
};

/// Those of one head of one sequence.
template <Element element, Scoring scoring>
class Scores : public Dropout {
 public:
  __device__ __forceinline__ Scores(const ScoreFeatures& features, const DeviceProblem& problem, int sequence, int head,
                                    const Sequence& queries, const Sequence& keys)
      : Dropout(features, sequence, head), mask_(problem.mask), queries_(queries.length), keys_(keys.length) {
    offset_ = problem.mask.bottom_right ? keys_ - queries_ : 0;
    slope_ = features.slopes != nullptr ? features.slopes[head] : 0.0f;
    if constexpr (scoring == Scoring::planes) {
      bias_ = head_plane<const uint16_t>(features.bias, sequence, head, queries_, keys_);
      forbidden_ = head_plane<const uint8_t>(features.forbidden, sequence, head, queries_, keys_);
      ranges_ = sequence_ranges(features.ranges, packed_row(problem, sequence, queries));
      table_ = features.table != nullptr ? features.table + int64_t{head} * (2 * features.reach + 1) + features.reach : nullptr;
    }
  }

  /// The bias of a query and a key; 0 without one.
  __device__ __forceinline__ float bias_at(int query, int key) const {
    if constexpr (scoring == Scoring::planes) {
      if (bias_.data != nullptr) return arch::unpack<element>(bias_.at(query, key)).x;
    }
    return 0.0f;
  }
  __device__ __forceinline__ const HeadPlane<const uint16_t>& bias() const { return bias_; }

  /// z of a product q k at a distance of positions, and cap' there.
  __device__ __forceinline__ float score(float product, float distance, int query, int key, float& cap_slope) const {
    return score(product, distance, query, key, bias_at(query, key), cap_slope);
  }
  __device__ __forceinline__ float score(float product, float distance, int query, int key, float bias, float& cap_slope) const {
    float z = product * features_.scale;
    if (scoring == Scoring::planes && features_.bias_before_cap) {
      z += bias;
      bias = 0.0f;
    }
    cap_slope = 1.0f;
    if (capped()) cap(z, cap_slope);
    z -= slope_ * distance;
    if constexpr (scoring == Scoring::planes) {
      z += bias;
      if (table_ != nullptr) z += table_[min(max(key - query - offset_, -features_.reach), features_.reach)];
    }
    return z;
  }

  __device__ __forceinline__ bool capped() const { return features_.cap > 0.0f; }

  /// For loops over scores without planes that have asked whether these are capped.
  template <bool capped>
  __device__ __forceinline__ float score(float product, float distance, float& cap_slope) const {
    static_assert(scoring == Scoring::scores);
    float z = product * features_.scale;
    cap_slope = 1.0f;
    if constexpr (capped) cap(z, cap_slope);
    return z - slope_ * distance;
  }

  /// Bits of the accumulators whose query attends their key, of 16 rows and N columns; `row` and `column` are those of this
  /// thread's first one.
  template <bool rows_are_queries, int N>
  __device__ __forceinline__ uint32_t attended(int row, int column) const {
    static_assert(N <= 64);
    uint32_t bits = 0;
    if (ranges_.bounds == nullptr && forbidden_.data == nullptr) {
      const int first = column - tile_column(), end = first + N;
      bool all = row + 8 < (rows_are_queries ? queries_ : keys_);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const Interval seen = rows_are_queries ? key_interval(mask_, row + 8 * h, queries_, keys_)
                                               : query_interval(mask_, row + 8 * h, queries_, keys_);
        all = all && seen.begin <= first && seen.end >= end;
      }
      if (__all_sync(~0u, all)) return ~0u;
    }
    const auto columns_within = [&](Interval keys, int h) {  // of the accumulators of row h
      uint32_t within = 0;
#pragma unroll
      for (int i = 0; i < N / 2; ++i) {
        const int at = column + 8 * (i >> 2) + (i & 1);
        if (((i >> 1) & 1) == h && at >= keys.begin && at < keys.end) within |= 1u << i;
      }
      return within;
    };
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int at = row + 8 * h;
      const bool exists = at < (rows_are_queries ? queries_ : keys_);
      if (exists)
        bits |= columns_within(
            rows_are_queries ? key_interval(mask_, at, queries_, keys_) : query_interval(mask_, at, queries_, keys_), h);
      if (rows_are_queries && exists && ranges_.bounds != nullptr) {
        uint32_t within = 0;
        for (int r = 0; r < ranges_.count; ++r) {
          const int2 range = ranges_.bounds[int64_t{at} * ranges_.count + r];
          within |= columns_within({range.x, range.y}, h);
        }
        bits &= within | (h == 0 ? 0xccccccccu : 0x33333333u);  // accumulators of the other row stay
      }
    }
    if (!rows_are_queries && ranges_.bounds != nullptr) {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) {
        if (bits >> i & 1 && !ranges_.hold(column + 8 * (i >> 2) + (i & 1), row + 8 * ((i >> 1) & 1))) bits &= ~(1u << i);
      }
    }
    if (forbidden_.data == nullptr) return bits;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const int one = row + 8 * ((i >> 1) & 1), other = column + 8 * (i >> 2) + (i & 1);
      if (bits >> i & 1 && forbidden_.at(rows_are_queries ? one : other, rows_are_queries ? other : one) == 0) bits &= ~(1u << i);
    }
    return bits;
  }

  /// Whether any of the queries [query, query_end) sees one of the keys [key, key_end) by the ranges. The whole block asks, and
  /// waits; its threads are as many as the queries or more.
  __device__ __forceinline__ bool tile_has_work(int query, int query_end, int key, int key_end) const {
    if (scoring != Scoring::planes || ranges_.bounds == nullptr) return true;
    const int mine = query + static_cast<int>(threadIdx.x);
    return __syncthreads_or(mine < min(query_end, queries_) && ranges_.meets(mine, key, key_end));
  }

  /// Position of the query less that of the key; exact, as there are fewer than 2^24 of either.
  __device__ __forceinline__ float position(int query, int key) const { return static_cast<float>(query + offset_ - key); }

 private:
  __device__ __forceinline__ void cap(float& z, float& slope) const {
    // tanh |x| = 1 - 2 / (1 + e^(2 |x|)).
    const float e = arch::exp2(fabsf(z * features_.inverse_cap) * 2.8853900817779268f);
    const float tanh = copysignf(1.0f - 2.0f * arch::reciprocal(1.0f + e), z);
    z = features_.cap * tanh;
    slope = 1.0f - tanh * tanh;
  }

  // Of this thread's first accumulator within its tile.
  static __device__ __forceinline__ int tile_column() { return 2 * static_cast<int>(threadIdx.x & 3); }

  const AttentionWindow& mask_;
  int queries_, keys_, offset_;
  float slope_;
  HeadPlane<const uint16_t> bias_;
  HeadPlane<const uint8_t> forbidden_;
  SequenceRanges ranges_;
  const float* table_;  // at distance 0
};

}  // namespace deckle::kernels::cuda::attention::portable
