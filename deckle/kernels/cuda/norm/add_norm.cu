// The sum of two tensors and of a row, and layer_norm of it; and its derivatives.  x, z, s, g, c: [rows, n], contiguous; b: [n]
//   forward     s = x + z + b;  y = layer_norm(s)
//   backward    ds = layer_norm's of g, plus c, which came for s;  sums over rows of ds, of g sh, and of g
//
//   rung (12 layers' worth of a residual)          bytes per element      [29646, 768] bfloat16 at 4.1 TB/s, computed
//   add, layer_norm | backward, add, sum of rows   5 r w | 7 r w          0.055 ms | 0.078 ms
//   one kernel each                                4 | 4                  0.044 ms | 0.044 ms
// A warp has a row in registers, forward one, backward a run of rows (warp_backward.cuh). Halves up to 1024 elements a row,
// floats up to 512, in vectors of 16 bytes.
#include "deckle/kernels/cuda/norm/merge.cuh"
#include "deckle/kernels/cuda/norm/warp_backward.cuh"

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
  const int64_t blocks = Runs(matrix.rows).blocks;
  bool served = false;
  {
    const deckle::cuda::Block parts(blocks * 3 * n * static_cast<int64_t>(sizeof(float)), context.device);
    served = launch_warp_backward<true>(context, sum.dtype, g, s, c, w, ds, parts.as<float>(), matrix.rows, Kind(n, eps, true));
    const Sums sums{{weight_gradient.data, bias_gradient.data, other_bias_gradient.data},
                    {weight_gradient.dtype, bias_gradient.dtype, other_bias_gradient.dtype}};
    if (served)
      merge_parts<<<dim3(reduce::blocks_of(n, kColumns), 3), dim3(kColumns, kDepth), 0,
                    deckle::cuda::stream_handle(context.device)>>>(parts.as<float>(), sums, n, blocks);
  }
  deckle::cuda::check_launch(context.device);
  return served;
}

}  // namespace deckle::kernels::cuda
