// What the scored instances of the forward do besides: soft cap, slopes, bias, table and dropout, of one warpgroup's 64 rows.
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
      : args_(args), item_(item), row_(item.first_row + 64 * warpgroup + tile::accumulator_row(threadIdx.x % 128)) {
    const CudaAttentionPlane& bias = args.scores.features.bias;
    wide_ = static_cast<const uint16_t*>(bias.data);
    if (args.scores.wide_bias)
      wide_ += item.sequence * bias.sequence_stride + item.head * bias.head_stride + row_ * bias.row_stride +
               8 * static_cast<int>(threadIdx.x % 4);
  }

  /// Before the first tile, and after each for the next one.
  __device__ __forceinline__ void fetch(int j) {
    if (!args_.scores.wide_bias) return;
#pragma unroll
    for (int m = 0; m < kChunks; ++m) fetch_bias(j, m);
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
    const Scores features = scores_of_item();
    const int column = j * N + tile::accumulator_column(threadIdx.x);
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
  __device__ __forceinline__ Scores scores_of_item() const {
    return {args_.scores.features, args_.problem, item_.sequence, item_.head, {0, 0, item_.queries, 0}, {0, 0, item_.keys, 0}};
  }

  // Four lanes read 32 columns of a row.
  __device__ __forceinline__ void fetch_bias(int j, int m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int column = j * N + 32 * m;
      uint4 w = make_uint4(0, 0, 0, 0);
      if (j >= 0 && row_ + 8 * h < item_.queries && column + 8 * static_cast<int>(threadIdx.x % 4) < item_.keys)
        w = __ldg(reinterpret_cast<const uint4*>(wide_ + 8 * h * args_.scores.features.bias.row_stride + column));
      bias_[m][h][0] = w.x;
      bias_[m][h][1] = w.y;
      bias_[m][h][2] = w.z;
      bias_[m][h][3] = w.w;
    }
  }

  const ForwardArguments& args_;
  const ForwardItem& item_;
  int row_;
  const uint16_t* wide_;  // this lane's first 8 columns of its first row
  portable::KeptFlags<N> kept_;
  uint32_t bias_[kChunks][2][4];
};

}  // namespace deckle::kernels::cuda::attention
