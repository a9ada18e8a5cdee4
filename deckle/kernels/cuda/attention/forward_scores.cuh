// What the scored instances of the forward do besides: soft cap, slopes, bias, table, dropout, and masks of ranges and of bytes,
// of one warpgroup's 64 rows.
#pragma once

#include "deckle/kernels/cuda/arch/mma.cuh"
#include "deckle/kernels/cuda/attention/forward_work.cuh"
#include "deckle/kernels/cuda/attention/portable_scores.cuh"
#include "deckle/kernels/cuda/attention/ragged_bias.h"

namespace deckle::kernels::cuda::attention {

/// What a tile needs is fetched before its products end, and applied after. Next to nothing is kept in registers over the loop:
/// what the item says is read again from shared memory.
template <class Config, FeatureSet set>
class ForwardScores {
  static constexpr bool kAny = set == FeatureSet::any, kBias = kAny || set == FeatureSet::bias,
                        kDropout = kAny || set == FeatureSet::dropout;
  static constexpr bool kHolds = !kAny && Config::warpgroups < 4;  // registers are few
  static constexpr bool kCap = set == FeatureSet::cap, kSlopes = set == FeatureSet::slopes;
  static constexpr int N = Config::keys;
  static_assert(N % 32 == 0);
  using Bias = BiasTile<Config>;

 public:
  /// See exponentiate. A bias of float16 is not.
  static constexpr bool kMayBeFar = kAny || (kBias && Config::element == Element::bf16);

  __device__ __forceinline__ ForwardScores(const ForwardArguments& args, ForwardStorage<Config>& shared, const ForwardItem& item,
                                           int warpgroup)
      : args_(args), item_(item), row_(item.first_row + 64 * warpgroup + tile::accumulator_row(threadIdx.x % 128)) {
    if constexpr (kBias) {
      bias_ = arch::shared_address(shared.bias[threadIdx.x / 32]);
      if constexpr (kHolds) wide_ = wide();
    }
    if constexpr (set == FeatureSet::dropout) generator_ = walked_generator();
    if constexpr (kSlopes) slope_ = -args.scores.features.slopes[item.head];
  }

  struct Place {
    int tile;
    bool partial;
  };
  /// A place in the item's walk.
  __device__ __forceinline__ Place at(int place) const {
    const TileWalks& walks = args_.scores.walks;
    if (!kAny || walks.visits == nullptr) return {place, false};
    const Visit visit = walks.visits[int64_t{item_.walk} * walks.longest + place];
    return {visit.tile, visit.partial()};
  }

  /// Before a tile's products are issued, for the registers that these take: where all features are together, what its masks of
  /// ranges and of bytes allow and what dropout keeps of it, to this lane's words beside the tile of the bias.
  __device__ __forceinline__ void prepare(const Place& at) {
    if constexpr (!kAny) return;
    draw_kept(at.tile);
    if (!at.partial) return;
    const int first = at.tile * N + tile::accumulator_column(threadIdx.x);
    const portable::ScoreFeatures& features = args_.scores.features;
    const Sequences& sequences = args_.problem.queries;
    const int64_t packed =
        sequences.offsets == nullptr ? int64_t{item_.sequence} * sequences.rows : item_.lse / args_.problem.heads;
    const SequenceRanges ranges = sequence_ranges(features.ranges, packed);
    const HeadPlane<const uint8_t> bytes =
        head_plane<const uint8_t>(features.forbidden, item_.sequence, item_.head, item_.queries, item_.keys);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = min(row_ + 8 * h, item_.queries - 1);  // what rows that do not exist read is of no account
      uint32_t allowed = ranges.bounds == nullptr ? ~0u : 0;
      for (int r = 0; r < ranges.count; ++r) {
        const int2 range = ranges.bounds[int64_t{row} * ranges.count + r];
#pragma unroll
        for (int i = 0; i < N / 4; ++i) {
          const int key = first + 8 * (i / 2) + i % 2;
          allowed |= key >= range.x && key < range.y ? 1u << i : 0;
        }
      }
      if (bytes.data != nullptr) {
#pragma unroll
        for (int i = 0; i < N / 4; ++i) {
          const int key = min(first + 8 * (i / 2) + i % 2, item_.keys - 1);
          if (bytes.at(row, key) == 0) allowed &= ~(1u << i);
        }
      }
      arch::store_shared_word(parking() + 8 + 4 * h, allowed);
    }
  }

  /// -inf where a mask of ranges or of bytes forbids.
  __device__ __forceinline__ void mask(float (&scores)[N / 2], const Place& at) const {
    if (!kAny || !at.partial) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const uint32_t allowed = arch::load_shared_word(parking() + 8 + 4 * h);
#pragma unroll
      for (int i = 0; i < N / 4; ++i) {
        float& score = scores[4 * (i / 2) + 2 * h + i % 2];
        score = allowed >> i & 1 ? score : kMinusInfinity;
      }
    }
  }

  /// Whether what a masked score holds may reach another one: a tile with an edge is then masked before `apply` as well.
  static constexpr bool kMixesScores = kCap && Config::D == 64;

  /// Before the first tile, and after each for the next one; -1: there is none.
  __device__ __forceinline__ void fetch(int j) {
    if (!kBias || (kAny && !args_.scores.wide_bias)) return;
    if (j < 0) return;
    // Four lanes copy 32 columns of a row.
    const int lane = threadIdx.x % 32, queries = item_.queries - row_, keys = item_.keys - j * N - 8 * (lane % 4);
    const int64_t eight_rows = 8 * bias_row_stride();
    const uint16_t* from = (kHolds ? wide_ : wide()) + j * N;
    __syncwarp();  // all have read the tile before
#pragma unroll
    for (int h = 0; h < 2; ++h, from += eight_rows) {
#pragma unroll
      for (int m = 0; m < N / 32; ++m) {
        arch::copy_async(bias_ + (lane / 4 + 8 * h) * Bias::row_bytes + lane % 4 * 16 + 64 * m, from + 32 * m,
                         queries > 8 * h && keys > 32 * m);
      }
    }
    arch::commit_copies();
  }

  __device__ __forceinline__ void draw(int j) {
    if constexpr (!kAny) draw_kept(j);
  }

  __device__ __forceinline__ void draw_kept(int j) {
    if (!kDropout || (kAny && args_.scores.features.threshold == 0)) return;
    const portable::ScoreFeatures& features = args_.scores.features;
    const uint32_t first = j * (N / 16) + (threadIdx.x >> 2 & 1) + features.first_column_block;
    const portable::WalkedPhilox generator = kAny ? walked_generator() : generator_;
#pragma unroll
    for (int m = 0; m < N / 32; ++m) {
      uint32_t w[4];
      generator.draw(w, first + 2 * m);
      kept_.add_pair(m, portable::Dropout::pair_flags<true>(w, features.complement));
    }
    if constexpr (kAny) {
      const uint32_t parked = parking();
#pragma unroll
      for (int i = 0; i < kept_.words; ++i) arch::store_shared_word(parked + 4 * i, kept_.word[i]);
    }
  }

  /// Scores from products, in natural units.
  __device__ __forceinline__ void apply(float (&scores)[N / 2], int j) {
    if constexpr (kCap) return cap(scores);
    if constexpr (kSlopes) return add_slopes(scores, j);
    if (!kBias || (kAny && !args_.scores.change)) return;
    if (!kAny) {
      for_biases([&](int i, const float2& pair) {
        scores[i] = fmaf(scores[i], args_.scores.features.scale, pair.x);
        scores[i + 1] = fmaf(scores[i + 1], args_.scores.features.scale, pair.y);
      });
      return;
    }
    // What there is of them is asked once a tile, not for each score.
    const portable::ScoreFeatures& features = args_.scores.features;
#pragma unroll
    for (float& score : scores) score *= features.scale;
    const auto add_bias = [&] {
      for_biases([&](int i, const float2& pair) {
        scores[i] += pair.x;
        scores[i + 1] += pair.y;
      });
    };
    if (args_.scores.wide_bias && features.bias_before_cap) add_bias();
    if (features.cap > 0.0f) cap(scores);
    const int offset = args_.problem.mask.bottom_right ? item_.keys - item_.queries : 0;
    int distance = row_ + offset - j * N - tile::accumulator_column(threadIdx.x);  // of accumulator 0
    if (features.slopes != nullptr) {
      const float slope = -features.slopes[item_.head];
#pragma unroll
      for (int i = 0; i < N / 2; ++i) scores[i] = fmaf(slope, fabsf(static_cast<float>(distance) + further(i)), scores[i]);
    }
    if (args_.scores.wide_bias && !features.bias_before_cap) add_bias();
    if (features.table == nullptr) return;
    const float* const table = features.table + int64_t{item_.head} * (2 * features.reach + 1) + features.reach;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      if (i % 8 == 0) arch::forget(distance);  // no places in the table for all scores at once
      scores[i] += table[min(max(-distance - static_cast<int>(further(i)), -features.reach), features.reach)];
    }
  }

  /// Packed weights without those that are dropped.
  __device__ __forceinline__ void drop(uint32_t (&p)[N / 4]) {
    if (!kDropout || (kAny && args_.scores.features.threshold == 0)) return;
    if constexpr (kAny) {
      const uint32_t parked = parking();
#pragma unroll
      for (int i = 0; i < kept_.words; ++i) kept_.word[i] = arch::load_shared_word(parked + 4 * i);
    }
#pragma unroll
    for (int m = 0; m < N / 16; ++m) {
      const uint32_t even = kept_.at_pair(m, 0), odd = kept_.at_pair(m, 1);
      p[4 * m] &= arch::permute_bytes<0xcc88>(even, odd);
      p[4 * m + 1] &= arch::permute_bytes<0xdd99>(even, odd);
      p[4 * m + 2] &= arch::permute_bytes<0xeeaa>(even, odd);
      p[4 * m + 3] &= arch::permute_bytes<0xffbb>(even, odd);
    }
  }

 private:
  /// Of this warp's 16 rows and the pair of them that this lane's call is of; see Dropout::flags.
  __device__ __forceinline__ portable::WalkedPhilox walked_generator() const {
    const portable::ScoreFeatures& features = args_.scores.features;
    const uint32_t lane = threadIdx.x % 32;
    const bool made = features.made_key != nullptr;
    return {row_ / 16 + features.first_row_block, (item_.head + features.first_head) << 4 | lane / 8 << 2 | lane % 4,
            item_.sequence + features.first_sequence, made ? features.made_key[0] : features.key[0],
            made ? features.made_key[1] : features.key[1]};
  }
  /// Where all features together keep this lane's flags of dropout while scores change, for their registers: beside the tile of
  /// the bias, whose rows are 16 bytes apart.
  __device__ __forceinline__ uint32_t parking() const {
    static_assert(sizeof(kept_) <= 8);
    const uint32_t lane = threadIdx.x % 32;
    return bias_ + lane / 2 * Bias::row_bytes + 2 * N + 16 * (lane % 2);
  }
  /// body(number of the first score, biases of it and the next) for each pair of this thread's scores.
  template <typename Body>
  __device__ __forceinline__ void for_biases(const Body& body) {
    const int lane = threadIdx.x % 32;
    arch::wait_copies();
    __syncwarp();
#pragma unroll
    for (int block = 0; block < N / 16; ++block) {
      uint32_t w[4];
      arch::load_matrices(w, bias_ + lane % 16 * Bias::row_bytes + lane / 16 * 16 + 32 * block);
#pragma unroll
      for (int i = 0; i < 4; ++i) body(8 * block + 2 * i, arch::unpack<Config::element>(w[i]));
    }
  }
  /// This lane's first 8 columns of its first row of the bias; a ragged one is the copy that ragged_bias.h tells of.
  __device__ __forceinline__ const uint16_t* wide() const {
    const CudaAttentionPlane& bias = args_.scores.features.bias;
    const int64_t of_sequence = bias.offsets != nullptr ? bias.offsets[item_.sequence] : item_.sequence * bias.sequence_stride;
    return static_cast<const uint16_t*>(bias.data) + of_sequence + item_.head * bias.head_stride + row_ * bias_row_stride() +
           8 * static_cast<int>(threadIdx.x % 4);
  }
  __device__ __forceinline__ int64_t bias_row_stride() const {
    const CudaAttentionPlane& bias = args_.scores.features.bias;
    return bias.offsets != nullptr ? row_elements(item_.keys) : bias.row_stride;
  }
  /// How much further accumulator i's query is from its key than that of accumulator 0.
  __device__ static constexpr float further(int i) {
    return static_cast<float>(8 * ((i >> 1) & 1)) - static_cast<float>(8 * (i >> 2) + (i & 1));
  }
  /// Scores from products: cap tanh(x) = cap - 2 cap / (1 + e^(2 x)), of either sign. Two exponentials and a reciprocal a score
  /// would keep that unit busy for three times as long as the products of D = 64 take, so four scores of a row share a
  /// reciprocal there: of the product of their denominators, which stay below 2^30, where tanh is 1. A NaN is one of all four,
  /// which are masked before, too, where the tile holds an edge. At D = 128 that was slower, by a tenth.
  __device__ __forceinline__ void cap(float (&scores)[N / 2]) const {
    const portable::ScoreFeatures& features = args_.scores.features;
    const float cap = features.cap, twice = -2.0f * cap;
    const float scale = (kAny ? 1.0f : features.scale) * features.inverse_cap * 2.8853900817779268f;
    if constexpr (!kMixesScores) {
#pragma unroll
      for (float& score : scores) score = fmaf(twice, arch::reciprocal(1.0f + arch::exp2(score * scale)), cap);
      return;
    }
#pragma unroll
    for (int i = 0; i < N / 2; i += 8) {
#pragma unroll
      for (int h = 0; h < 4; h += 2) {
        float* const s = scores + i + h;
        const auto denominator = [&](float score) { return 1.0f + arch::exp2(arch::min_or_nan(score * scale, 30.0f)); };
        const float a = denominator(s[0]), b = denominator(s[1]), c = denominator(s[4]), d = denominator(s[5]);
        const float ab = a * b, cd = c * d, all = twice * arch::reciprocal(ab * cd), of_ab = all * cd, of_cd = all * ab;
        s[0] = fmaf(of_ab, b, cap);
        s[1] = fmaf(of_ab, a, cap);
        s[4] = fmaf(of_cd, d, cap);
        s[5] = fmaf(of_cd, c, cap);
      }
    }
  }
  __device__ __forceinline__ void add_slopes(float (&scores)[N / 2], int j) const {
    const int offset = args_.problem.mask.bottom_right ? item_.keys - item_.queries : 0;
    const float scale = args_.scores.features.scale;
    const auto distance = static_cast<float>(row_ + offset - j * N - tile::accumulator_column(threadIdx.x));  // of accumulator 0
#pragma unroll
    for (int i = 0; i < N / 2; ++i) scores[i] = fmaf(slope_, fabsf(distance + further(i)), scores[i] * scale);
  }

  const ForwardArguments& args_;
  const ForwardItem& item_;
  int row_;
  portable::KeptFlags<N> kept_;
  portable::WalkedPhilox generator_;
  const uint16_t* wide_;
  uint32_t bias_;  // this warp's part of a tile of it
  float slope_;
};

}  // namespace deckle::kernels::cuda::attention
