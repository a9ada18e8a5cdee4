// What the scored instances of the forward do besides: soft cap, slopes, bias, table, dropout, and masks of ranges and of bytes,
// of one warpgroup's 64 rows.
#pragma once

#include "deckle/kernels/cuda/attention/forward_work.cuh"
#include "deckle/kernels/cuda/attention/portable_scores.cuh"

namespace deckle::kernels::cuda::attention {

/// What a tile needs is fetched before its products end, and applied after. Next to nothing is kept in registers over the loop:
/// what the item says is read again from shared memory.
template <class Config>
class ForwardScores {
  static constexpr int N = Config::keys, kChunks = N / 32;
  static_assert(N % 32 == 0);
  using Scores = portable::Scores<Config::element, portable::Scoring::planes>;

 public:
  __device__ __forceinline__ ForwardScores(const ForwardArguments& args, const ForwardItem& item, int warpgroup)
      : args_(args), item_(item), row_(item.first_row + 64 * warpgroup + tile::accumulator_row(threadIdx.x % 128)) {}

  struct Place {
    int tile;
    bool partial;
  };
  /// A place in the item's walk; before the first one there is tile -1.
  __device__ __forceinline__ Place at(int place) const {
    const TileWalks& walks = args_.scores.walks;
    if (walks.visits == nullptr || place < item_.tile_begin) return {walks.visits == nullptr ? place : -1, false};
    const Visit visit = walks.visits[int64_t{item_.part} * walks.longest + place];
    return {visit.tile, visit.partial()};
  }

  /// -inf where a mask of ranges or of bytes forbids.
  __device__ __forceinline__ void mask(float (&scores)[N / 2], const Place& at) const {
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
#pragma unroll
      for (int i = 0; i < N / 4; ++i) {
        float& score = scores[4 * (i / 2) + 2 * h + i % 2];
        score = allowed >> i & 1 ? score : kMinusInfinity;
      }
    }
  }

  /// Before the first tile, and after each for the next one.
  __device__ __forceinline__ void fetch(int j) {
    if (!args_.scores.wide_bias) return;
    const CudaAttentionPlane& bias = args_.scores.features.bias;
    const uint16_t* const wide = static_cast<const uint16_t*>(bias.data) + item_.sequence * bias.sequence_stride +
                                 item_.head * bias.head_stride + row_ * bias.row_stride + 8 * static_cast<int>(threadIdx.x % 4);
#pragma unroll
    for (int m = 0; m < kChunks; ++m) fetch_bias(wide, j, m);
  }

  __device__ __forceinline__ void draw(int j) {
    if (args_.scores.features.threshold == 0) return;
    const portable::Dropout dropout(args_.scores.features, item_.sequence, item_.head);
#pragma unroll
    for (int m = 0; m < kChunks; ++m) {
      uint32_t flags[2][2];
      dropout.flags<true>(flags, row_ & ~15, j * N + 32 * m);
#pragma unroll
      for (int n = 0; n < 4; ++n) kept_.add(4 * m + n, flags[n / 2][n % 2]);
    }
  }

  /// Scores from products, in natural units.
  __device__ __forceinline__ void apply(float (&scores)[N / 2], int j) {
    if (!args_.scores.change) return;
    if (args_.scores.bias_alone) {
      for_biases([&](int i, const float2& pair) {
        scores[i] = fmaf(scores[i], args_.scores.features.scale, pair.x);
        scores[i + 1] = fmaf(scores[i + 1], args_.scores.features.scale, pair.y);
      });
      return;
    }
    const int column = j * N + tile::accumulator_column(threadIdx.x);
    if (args_.scores.features.bias.data == nullptr && args_.scores.features.table == nullptr)
      return cap_and_slope(scores, column);
    const Scores features = scores_of_item();
    const float position = features.position(row_, column);
    const auto set = [&](int i, float bias) {
      const int below = 8 * ((i >> 1) & 1), right = 8 * (i >> 2) + (i & 1);
      float unused;
      scores[i] = features.score(scores[i], fabsf(position + static_cast<float>(below - right)), row_ + below, column + right,
                                 bias, unused);
    };
    if (args_.scores.wide_bias) {
      for_biases([&](int i, const float2& pair) {
        set(i, pair.x);
        set(i + 1, pair.y);
      });
    } else {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) set(i, 0.0f);
    }
  }

  /// Packed weights without those that are dropped.
  __device__ __forceinline__ void drop(uint32_t (&p)[N / 4]) const {
    if (args_.scores.features.threshold == 0) return;
#pragma unroll
    for (int m = 0; m < N / 16; ++m) {
      const uint32_t even = kept_.at(2 * m), odd = kept_.at(2 * m + 1);
      p[4 * m] &= arch::permute_bytes<0xcc88>(even, odd);
      p[4 * m + 1] &= arch::permute_bytes<0xdd99>(even, odd);
      p[4 * m + 2] &= arch::permute_bytes<0xeeaa>(even, odd);
      p[4 * m + 3] &= arch::permute_bytes<0xffbb>(even, odd);
    }
  }

 private:
  /// body(number of the first score, biases of it and the next) for each pair of this thread's scores.
  template <typename Body>
  __device__ __forceinline__ void for_biases(const Body& body) {
#pragma unroll
    for (int m = 0; m < kChunks; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        arch::transpose_quad(bias_[m][h], threadIdx.x % 4);
#pragma unroll
        for (int n = 0; n < 4; ++n) body(4 * (4 * m + n) + 2 * h, arch::unpack<Config::element>(bias_[m][h][n]));
      }
    }
  }
  /// Soft cap and slopes alone: what there is of them is asked once a tile, not for each score.
  __device__ __forceinline__ void cap_and_slope(float (&scores)[N / 2], int column) const {
    const portable::ScoreFeatures& features = args_.scores.features;
    const int offset = args_.problem.mask.bottom_right ? item_.keys - item_.queries : 0;
    const auto position = static_cast<float>(row_ + offset - column);
    const float slope = features.slopes != nullptr ? -features.slopes[item_.head] : 0.0f;
    const auto add_slope = [&](int i, float score) {
      const int below = 8 * ((i >> 1) & 1), right = 8 * (i >> 2) + (i & 1);
      scores[i] = fmaf(slope, fabsf(position + static_cast<float>(below - right)), score);
    };
    if (features.cap > 0.0f) {
      const float scale = features.scale * features.inverse_cap;
#pragma unroll
      for (int i = 0; i < N / 2; ++i) {  // tanh |x| = 1 - 2 / (1 + e^(2 |x|))
        const float x = scores[i] * scale, e = arch::exp2(fabsf(x) * 2.8853900817779268f);
        add_slope(i, features.cap * copysignf(fmaf(-2.0f, arch::reciprocal(1.0f + e), 1.0f), x));
      }
    } else {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) add_slope(i, scores[i] * features.scale);
    }
  }
  __device__ __forceinline__ Scores scores_of_item() const {
    return {args_.scores.features, args_.problem, item_.sequence, item_.head, {0, 0, item_.queries, 0}, {0, 0, item_.keys, 0}};
  }

  // Four lanes read 32 columns of a row; `wide` are this lane's first 8 columns of its first row.
  __device__ __forceinline__ void fetch_bias(const uint16_t* wide, int j, int m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int column = j * N + 32 * m;
      uint4 w = make_uint4(0, 0, 0, 0);
      if (j >= 0 && row_ + 8 * h < item_.queries && column + 8 * static_cast<int>(threadIdx.x % 4) < item_.keys)
        w = __ldg(reinterpret_cast<const uint4*>(wide + 8 * h * args_.scores.features.bias.row_stride + column));
      bias_[m][h][0] = w.x;
      bias_[m][h][1] = w.y;
      bias_[m][h][2] = w.z;
      bias_[m][h][3] = w.w;
    }
  }

  const ForwardArguments& args_;
  const ForwardItem& item_;
  int row_;
  portable::KeptFlags<N> kept_;
  uint32_t bias_[kChunks][2][4];
};

}  // namespace deckle::kernels::cuda::attention
