// The sum of two tensors and of a row, and layer_norm of it; and its derivatives.   x, z, s, g, c: [rows, n], contiguous; rows
// [n]
//   forward     s = x + z + b;  y = layer_norm(s)
//   backward    ds = layer_norm's of g, plus c, which came for s;  sums over rows of ds, of g sh, and of g
//
//   rung (12 layers' worth of a residual)          bytes per element      [29646, 768] bfloat16 at 4.1 TB/s
//   add, layer_norm | backward, add, sum of rows   5 r w | 7 r w          0.055 ms | 0.078 ms
//   one kernel each                                4 | 4                  0.044 ms | 0.044 ms, floors
// A warp has a row in registers, forward one, backward a run of rows: sums over its rows in float, of warps and blocks in double,
// merged in order. How long a run is, the shape decides. Halves up to 1024 elements a row, floats up to 512, in vectors of
// 16 bytes.
#include "deckle/kernels/cuda/norm/merge.cuh"
#include "deckle/kernels/cuda/norm/statistics.cuh"

namespace deckle::kernels::cuda {
namespace {

using namespace norm;

template <typename E, int kItems>
using Part = Tile<reduce::Packed<E>, 32, kItems>;

/// x as an E holds it.
template <typename E, int kWidth>
__device__ __forceinline__ void round_to(float* x) {
  if constexpr (sizeof(E) == 2) pointwise::decode<E>(pointwise::encode<E>(x), x);
}

template <typename E, int kItems>
__global__ void __launch_bounds__(256)
    add_forward(const __grid_constant__ Rows x, const __grid_constant__ Rows z, Weights b, Weights weight, Weights bias,
                const __grid_constant__ Rows y, const __grid_constant__ Rows sum, int64_t rows,
                const __grid_constant__ Kind kind) {
  using S = reduce::Packed<E>;
  constexpr int kWidth = S::kWidth;
  __shared__ typename Team<32, float>::Shared shared;
  Team<32, float> team(shared);
  const int64_t row = team.number(), start = row * kind.n;
  if (row >= rows) return;  // whole warps leave
  float values[kItems], others[kItems];
  Part<E, kItems>::load(x, start, 0, kind.n, values, 0.0f);
  Part<E, kItems>::load(z, start, 0, kind.n, others, 0.0f);
#pragma unroll
  for (int v = 0; v < kItems / kWidth; ++v) {
    const int64_t i = Part<E, kItems>::place(v * kWidth);
    float *const of = &values[v * kWidth], more[kWidth] = {};
    if (b.data != nullptr && i < kind.n) S::load_any(b.data, b.dtype, i, more);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) of[k] += others[v * kWidth + k] + more[k];
    round_to<E, kWidth>(of);
    if (i < kind.n) S::store(sum, start, i, of);
  }
  __syncwarp();  // a row that centre reads again is there
  const Statistics<float> of = centre<S, 32, kItems>(team, sum, start, kind, values);
#pragma unroll
  for (int v = 0; v < kItems / kWidth; ++v) {
    const int64_t i = Part<E, kItems>::place(v * kWidth);
    if (i >= kind.n) continue;
    float *const to = &values[v * kWidth], row_of[kWidth];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) to[k] = to[k] * of.scale + of.offset;
    if (weight.data != nullptr) {
      S::load_any(weight.data, weight.dtype, i, row_of);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) to[k] *= row_of[k];
    }
    if (bias.data != nullptr) {
      S::load_any(bias.data, bias.dtype, i, row_of);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) to[k] += row_of[k];
    }
    S::store(y, start, i, to);
  }
}

constexpr int kWarps = 4;  // of a block, backward

/// Warp w of block b has rows [(4 b + w) each, (4 b + w + 1) each). parts[b][3][n]: sums over the block's rows of ds, g sh and g.
template <typename E, int kItems>
__global__ void __launch_bounds__(32 * kWarps, 2)
    add_backward(const __grid_constant__ Rows g, const __grid_constant__ Rows carried, const __grid_constant__ Rows s,
                 Weights weight, const __grid_constant__ Rows ds, float* parts, int64_t rows, int64_t each,
                 const __grid_constant__ Kind kind) {
  using S = reduce::Packed<E>;
  using P = Part<E, kItems>;
  constexpr int kWidth = S::kWidth, kVectors = kItems / kWidth;
  __shared__ typename Team<32, float>::Shared shared;
  __shared__ double merged_sums[3][33 * kItems];  // [k][lane]: lanes side by side, no bank twice
  Team<32, float> team(shared);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t n = kind.n, first = (static_cast<int64_t>(blockIdx.x) * kWarps + warp) * each, end = min(first + each, rows);
  float of_sum[kItems] = {}, of_weight[kItems] = {}, of_bias[kItems] = {};
  typename S::Raw gradients[kVectors], values_in[kVectors], through[kVectors];
  float next_start = 0;
  const auto fetch = [&](int64_t row) {
    P::fetch(g, row * n, n, gradients);
    P::fetch(s, row * n, n, values_in);
    next_start = S::one(s, row * n, 0);
  };
  if (first < end) fetch(first);
  for (int64_t row = first; row < end; ++row) {
    float gradient[kItems], values[kItems];
    P::fetch(carried, row * n, n, through);
    P::decode(gradients, gradient);
    P::decode(values_in, values);
    const float start = next_start;
    if (row + 1 < end) fetch(row + 1);
    float weights[kItems];
    P::load_weight(weight.data, weight.dtype, n, weights, 1.0f);
    float totals[2];
    const Statistics<float> of = centre_with<S, 32, kItems>(
        team, s, row * n, kind, start, [&](int k) { return gradient[k] * weights[k]; }, values, totals);
#pragma unroll
    for (int k = 0; k < kItems; ++k) {
      values[k] = values[k] * of.scale + of.offset;
      of_weight[k] += gradient[k] * values[k];
      of_bias[k] += gradient[k];
      gradient[k] *= weights[k];
    }
    const float along = totals[0] * static_cast<float>(kind.inverse_n), rate = of.rate();
    const float plain = totals[1] * static_cast<float>(kind.inverse_n);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      float more[kWidth];
      S::decode(through[v], more);
      float* const to = &gradient[v * kWidth];
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        const int item = v * kWidth + k;
        to[k] = rate * ((to[k] - plain) - values[item] * along) + more[k];
        of_sum[item] += to[k];
      }
      if (P::place(v * kWidth) < n) S::store(ds, row * n, P::place(v * kWidth), to);
    }
  }
  for (int turn = 0; turn < kWarps; ++turn) {
    if (turn == warp) {
#pragma unroll
      for (int k = 0; k < kItems; ++k) {
        const int i = k * 33 + P::place(0) / kWidth;
        const double before[3] = {turn == 0 ? 0 : merged_sums[0][i], turn == 0 ? 0 : merged_sums[1][i],
                                  turn == 0 ? 0 : merged_sums[2][i]};
        merged_sums[0][i] = before[0] + static_cast<double>(of_sum[k]);
        merged_sums[1][i] = before[1] + static_cast<double>(of_weight[k]);
        merged_sums[2][i] = before[2] + static_cast<double>(of_bias[k]);
      }
    }
    __syncthreads();
  }
  for (int which = 0; which < 3; ++which) {
    for (int i = static_cast<int>(threadIdx.x); i < n; i += 32 * kWarps) {
      const int vector = i / kWidth, k = vector / 32 * kWidth + i % kWidth;
      parts[(static_cast<int64_t>(blockIdx.x) * 3 + which) * n + i] =
          static_cast<float>(merged_sums[which][k * 33 + vector % 32]);
    }
  }
}

struct Sums {
  void* data[3];
  DType dtype[3];
};

__global__ void __launch_bounds__(kColumns* kDepth)
    merge_parts(const float* parts, const __grid_constant__ Sums sums, int64_t n, int64_t count) {
  const int64_t which = blockIdx.y;
  merge_columns(
      n, count, [&](int64_t part, int64_t column) { return parts[(part * 3 + which) * n + column]; },
      [&](double sum, int64_t column) { pointwise::store(sum, sums.data[which], sums.dtype[which], column); });
}

/// Calls launch(element tag, items tag) if rows of n elements of this dtype fit a warp.
template <typename Launch>
bool for_rows_of_warps(DType dtype, int64_t n, const Launch& launch) {
  const auto with_items = [&]<typename E>(TypeTag<E> element) {
    constexpr int kWidth = 16 / sizeof(E);
    if (n <= 32 * kWidth) return launch(element, std::integral_constant<int, kWidth>()), true;
    if (n <= 256) return launch(element, std::integral_constant<int, 8>()), true;
    if (n <= 512) return launch(element, std::integral_constant<int, 16>()), true;
    if constexpr (sizeof(E) == 2) {  // three sums a column, and a row of floats, are more than there are registers
      if (n <= 768) return launch(element, std::integral_constant<int, 24>()), true;
      if (n <= 1024) return launch(element, std::integral_constant<int, 32>()), true;
    }
    return false;
  };
  if (dtype == DType::bfloat16) return with_items(TypeTag<__nv_bfloat16>());
  if (dtype == DType::float16) return with_items(TypeTag<__half>());
  if (dtype == DType::float32) return with_items(TypeTag<float>());
  return false;
}

bool all_packed(int64_t n, std::initializer_list<Rows> rows) {
  return std::all_of(rows.begin(), rows.end(), [&](const Rows& each) { return reduce::packed(each, n); });
}

}  // namespace

bool add_layer_norm(const Context& context, const View& self, const View& other, const View& other_bias, const View& weight,
                    const View& bias, double eps, const View& result, const View& sum) {
  if (self.numel() == 0) return false;
  const Matrix matrix(self);
  const Rows x = rows_of(self), z = rows_of(other), y = rows_of(result), s = rows_of(sum);
  const Weights b(other_bias), w(weight), c(bias);
  if (!all_packed(matrix.n, {x, z, y, s}) || !b.aligned() || !w.aligned() || !c.aligned()) return false;
  const deckle::cuda::DeviceGuard guard(context.device);
  const bool served =
      for_rows_of_warps(self.dtype, matrix.n, [&]<typename E, int kItems>(TypeTag<E>, std::integral_constant<int, kItems>) {
        add_forward<E, kItems><<<reduce::blocks_of(matrix.rows, 8), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
            x, z, b, w, c, y, s, matrix.rows, Kind(matrix.n, eps, true));
      });
  deckle::cuda::check_launch(context.device);
  return served;
}

bool add_layer_norm_backward(const Context& context, const View& gradient, const View& carried, const View& sum,
                             const View& weight, double eps, const View& sum_gradient, const View& other_bias_gradient,
                             const View& weight_gradient, const View& bias_gradient) {
  if (sum.numel() == 0 || gradient.dtype != sum.dtype || carried.dtype != sum.dtype) return false;
  const Matrix matrix(sum);
  const int64_t n = matrix.n;
  const Rows g = rows_of(gradient), c = rows_of(carried), s = rows_of(sum), ds = rows_of(sum_gradient);
  const Weights w(weight);
  if (!all_packed(n, {g, c, s, ds}) || !w.aligned()) return false;
  const deckle::cuda::DeviceGuard guard(context.device);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  // As many blocks as reside at once on a large GPU, while a warp's rows are few enough for sums in float.
  const int64_t each = std::clamp<int64_t>((matrix.rows + 264 * kWarps - 1) / (264 * kWarps), 1, 32);
  const int64_t blocks = (matrix.rows + each * kWarps - 1) / (each * kWarps);
  bool served = false;
  {
    const deckle::cuda::Block parts(blocks * 3 * n * static_cast<int64_t>(sizeof(float)), context.device);
    served = for_rows_of_warps(sum.dtype, n, [&]<typename E, int kItems>(TypeTag<E>, std::integral_constant<int, kItems>) {
      add_backward<E, kItems><<<static_cast<unsigned>(blocks), 32 * kWarps, 0, stream>>>(g, c, s, w, ds, parts.as<float>(),
                                                                                         matrix.rows, each, Kind(n, eps, true));
      const Sums sums{{other_bias_gradient.data, weight_gradient.data, bias_gradient.data},
                      {other_bias_gradient.dtype, weight_gradient.dtype, bias_gradient.dtype}};
      merge_parts<<<dim3(reduce::blocks_of(n, kColumns), 3), dim3(kColumns, kDepth), 0, stream>>>(parts.as<float>(), sums, n,
                                                                                                  blocks);
    });
  }
  deckle::cuda::check_launch(context.device);
  return served;
}

}  // namespace deckle::kernels::cuda
