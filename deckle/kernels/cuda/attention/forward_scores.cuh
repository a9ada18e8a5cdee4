// What the scored instances of the forward do besides: soft cap, slopes, bias, table and dropout, of one warpgroup's 64 rows.
#pragma once

#include "deckle/kernels/cuda/attention/forward_work.cuh"
#include "deckle/kernels/cuda/attention/portable_scores.cuh"

namespace deckle::kernels::cuda::attention {

/// What a tile needs is fetched before its products end, and applied after. Next to nothing is kept in registers over the loop:
/// what the item says is read again from shared memory.
template <class Config>
class ForwardScores {
  static constexpr int N = Config::keys, kChunks = N / 32, kEarly = 2;  // chunks of a bias that are fetched before
  static_assert(N % 32 == 0 && kChunks > kEarly);
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

  __device__ __forceinline__ void fetch(int j) {
    if (args_.scores.features.threshold != 0) {
      const Scores features = scores_of_item();
#pragma unroll
      for (int m = 0; m < kChunks; ++m) {
        const uint32_t kept = features.template keep<true>(row_ & ~15, j * N + 32 * m);
        kept_[m / 2] = m % 2 == 0 ? kept : kept_[m / 2] | kept << 16;
      }
    }
    if (!args_.scores.wide_bias) return;
#pragma unroll
    for (int m = 0; m < kEarly; ++m) fetch_bias(j, m);
  }

  /// Scores from products, in natural units.
  __device__ __forceinline__ void apply(float (&scores)[N / 2], int j) {
    if (!args_.scores.change) return;
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
#pragma unroll
      for (int m = kEarly; m < kChunks; ++m) fetch_bias(j, m);
#pragma unroll
      for (int m = 0; m < kChunks; ++m) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          arch::transpose_quad(bias_[m][h], threadIdx.x % 4);
#pragma unroll
          for (int n = 0; n < 4; ++n) {
            const float2 pair = arch::unpack<Config::element>(bias_[m][h][n]);
            set(4 * (4 * m + n) + 2 * h, pair.x);
            set(4 * (4 * m + n) + 2 * h + 1, pair.y);
          }
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < N / 2; ++i) set(i, 0.0f);
    }
  }

  __device__ __forceinline__ void drop(float (&p)[N / 2]) const {
    if (args_.scores.features.threshold == 0) return;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) p[i] = kept_[i / 32] >> (i % 32) & 1 ? p[i] : 0.0f;
  }

 private:
  __device__ __forceinline__ Scores scores_of_item() const {
    return {args_.scores.features, args_.problem, item_.sequence, item_.head, {0, 0, item_.queries, 0}, {0, 0, item_.keys, 0}};
  }

  // Four lanes read 32 columns of a row.
  __device__ __forceinline__ void fetch_bias(int j, int m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int column = j * N + 32 * m;
      uint4 w = make_uint4(0, 0, 0, 0);
      if (row_ + 8 * h < item_.queries && column + 8 * static_cast<int>(threadIdx.x % 4) < item_.keys)
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
  uint32_t kept_[(kChunks + 1) / 2];
  uint32_t bias_[kChunks][2][4];
};

}  // namespace deckle::kernels::cuda::attention
