// The gradients of attention: row statistics, then each gradient by itself.
#include "deckle/kernels/cuda/general_attention/feature_gradients.cuh"
#include "deckle/kernels/cuda/general_attention/gradients.cuh"

namespace deckle::kernels::cuda::general {
namespace {

template <typename T>
void backward_as(const Call& call, const AttentionOperands& x, const AttentionResults& y, const AttentionResults& dy,
                 const AttentionOperands& dx, void* workspace, cudaStream_t stream) {
  T* const delta = static_cast<T*>(workspace);
  const Cotangents g{x, {}, dy, {}, y.lse, delta, nullptr, nullptr};
  if (call.row_task_count > 0) {
    attention::launch_kernel("attention: row statistics", row_statistics<T, false>, row_grid(call, 1), kThreads, 0, stream, call,
                             g, Moved{y.out, {}, call.p.dtype}, delta, static_cast<T*>(nullptr));
  }
  launch_gradients<T, false>(call, g, dx, stream);
  launch_feature_gradients<T, false>(call, g, dx, static_cast<char*>(workspace) + statistic_bytes(call), stream);
}

// Spare rows of sequence blockIdx.x.
__global__ void clear_rows(const Call call, const AttentionRows rows, int64_t width) {
  const AttentionProblem& p = call.p;
  const Head head(p, static_cast<int>(blockIdx.x), 0);
  const int64_t first = head.first_key + head.keys, count = (p.k_offsets[head.sequence + 1] - first) * p.kv_heads * width;
  for (int64_t n = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x; n < count; n += int64_t{kThreads} * gridDim.y) {
    const int64_t row = n / width / p.kv_heads, head_of_row = n / width % p.kv_heads;
    const int64_t at = (first + row) * rows.row_stride + head_of_row * rows.head_stride + n % width;
    if (p.dtype == DType::float64)
      store(rows.data, at, p.dtype, 0.0);
    else
      store(rows.data, at, p.dtype, 0.0f);
  }
}

}  // namespace

void clear_spare(const Call& call, const AttentionOperands& dx, cudaStream_t stream) {
  if (!call.spare_keys) return;
  constexpr unsigned kBlocks = 16;
  for (const auto& [rows, width] : {std::pair(dx.k, call.p.head_dim), std::pair(dx.v, call.p.value_dim)}) {
    if (rows.data == nullptr) continue;
    attention::launch_kernel("attention: spare keys", clear_rows, dim3(static_cast<unsigned>(call.p.sequences), kBlocks),
                             kThreads, 0, stream, call, rows, width);
  }
}

void backward(const Call& call, const AttentionOperands& x, const AttentionResults& y, const AttentionResults& dy,
              const AttentionOperands& dx, void* workspace, cudaStream_t stream) {
  (call.p.dtype == DType::float64 ? backward_as<double> : backward_as<float>)(call, x, y, dy, dx, workspace, stream);
}

int64_t backward_bytes(const Call& call, const AttentionOperands& dx) { return statistic_bytes(call) + distance_bytes(call, dx); }

}  // namespace deckle::kernels::cuda::general
