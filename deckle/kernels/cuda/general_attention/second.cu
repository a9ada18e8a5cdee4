// The tangents of the gradients of attention: double backward, forward over reverse and reverse over forward (docs/attention.md).
// The JVP writes out and its tangent unrounded, from which Delta and tDelta come; then it is the backward's passes with twice the
// operands.
#include "deckle/kernels/cuda/general_attention/feature_gradients.cuh"
#include "deckle/kernels/cuda/general_attention/gradients.cuh"

namespace deckle::kernels::cuda::general {
namespace {

int64_t out_bytes(const Call& call) {
  const int64_t item = call.p.dtype == DType::float64 ? 8 : 4;
  return (call.total_rows * call.p.heads * call.p.value_dim * item + 255) / 256 * 256;
}

template <typename T>
void second_as(const Call& call, const AttentionOperands& x, const AttentionOperands& t, const AttentionResults& y,
               const AttentionResults& dy, const AttentionResults& tdy, const AttentionOperands& tdx, const AttentionResults& ty,
               void* workspace, cudaStream_t stream) {
  char* next = static_cast<char*>(workspace);
  const auto take = [&](int64_t bytes) { return std::exchange(next, next + bytes); };
  const int64_t value_dim = call.p.value_dim, row_stride = call.p.heads * value_dim;
  const Moved moved{{take(out_bytes(call)), row_stride, value_dim},
                    {take(out_bytes(call)), row_stride, value_dim},
                    sizeof(T) == 8 ? DType::float64 : DType::float32};
  T* const delta = reinterpret_cast<T*>(take(statistic_bytes(call)));
  T* const delta_tangent = reinterpret_cast<T*>(take(statistic_bytes(call)));
  char* const own_tangent = take(statistic_bytes(call));
  void* const lse_tangent = ty.lse != nullptr ? ty.lse : own_tangent;
  jvp(call, x, t, {moved.out, moved.tangent, moved.dtype, ty.out, lse_tangent}, stream);
  const Cotangents g{x, t, dy, tdy, y.lse, delta, lse_tangent, delta_tangent};
  if (call.row_task_count > 0) {
    attention::launch_kernel("attention: row statistics", row_statistics<T, true>, row_grid(call, 1), kThreads, 0, stream, call,
                             g, moved, delta, delta_tangent);
  }
  launch_gradients<T, true>(call, g, tdx, stream);
  launch_feature_gradients<T, true>(call, g, tdx, next, stream);
}

}  // namespace

void second(const Call& call, const AttentionOperands& x, const AttentionOperands& t, const AttentionResults& y,
            const AttentionResults& dy, const AttentionResults& tdy, const AttentionOperands& tdx, const AttentionResults& ty,
            void* workspace, cudaStream_t stream) {
  (call.p.dtype == DType::float64 ? second_as<double> : second_as<float>)(call, x, t, y, dy, tdy, tdx, ty, workspace, stream);
}

int64_t second_bytes(const Call& call, const AttentionOperands& tdx) {
  return 2 * out_bytes(call) + 3 * statistic_bytes(call) + distance_bytes(call, tdx);
}

}  // namespace deckle::kernels::cuda::general
