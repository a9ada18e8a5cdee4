// The passes: launches on device memory, in the order of the stream.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <limits>
#include <stdexcept>

#include "deckle/kernels/args/attention.h"
#include "deckle/kernels/cuda/general_attention/call.h"

namespace deckle::kernels::cuda::general {

/// What the JVP writes; null parts are not computed.
struct JvpResults {
  AttentionRows out = {}, tangent = {};
  DType dtype = DType::float32;        // of both
  AttentionRows rounded_tangent = {};  // the tangent once more, of the problem's dtype
  void* lse_tangent = nullptr;
};

/// Of a batch whose lengths the device alone knows, before all others: writes the tasks, and the offsets with one more sequence,
/// without rows, which spare tasks are of.
void list_tasks(const Call& call, cudaStream_t stream);

/// result = attention(x).
void forward(const Call& call, const AttentionOperands& x, const AttentionResults& y, cudaStream_t stream);

void jvp(const Call& call, const AttentionOperands& x, const AttentionOperands& t, const JvpResults& y, cudaStream_t stream);

/// d2 (out, lse) along a and b, where the operands move as x + s a + t b + s t ab. Scratch of mixed_bytes.
void mixed(const Call& call, const AttentionOperands& x, const AttentionOperands& a, const AttentionOperands& b,
           const AttentionOperands& ab, const AttentionResults& y, void* workspace, cudaStream_t stream);
int64_t mixed_bytes(const Call& call);

/// dx = vjp of (out, lse) along dy; y is the forward's. Null parts of dx are not computed. Scratch of backward_bytes.
void backward(const Call& call, const AttentionOperands& x, const AttentionResults& y, const AttentionResults& dy,
              const AttentionOperands& dx, void* workspace, cudaStream_t stream);
int64_t backward_bytes(const Call& call, const AttentionOperands& dx);

/// How dx moves when the operands move along t and dy along tdy (null: not); `ty`, where given, is the JVP along t. Scratch of
/// second_bytes.
void second(const Call& call, const AttentionOperands& x, const AttentionOperands& t, const AttentionResults& y,
            const AttentionResults& dy, const AttentionResults& tdy, const AttentionOperands& tdx, const AttentionResults& ty,
            void* workspace, cudaStream_t stream);
int64_t second_bytes(const Call& call, const AttentionOperands& tdx);

/// Zeros in the gradients of k and v, where they are wanted, of the rows behind the keys of their sequence.
void clear_spare(const Call& call, const AttentionOperands& dx, cudaStream_t stream);

// Parts of the passes.

/// Heads and their panels are the second dim, or, beyond the 65,535 of that, multiples of all tasks in the first (TaskBlock,
/// problem.cuh).
inline dim3 task_grid(int64_t tasks, int64_t others) {
  if (others > 65535 && tasks * others > std::numeric_limits<int32_t>::max())
    throw std::runtime_error("attention: more rows times heads than one launch takes");
  return others <= 65535 ? dim3(static_cast<unsigned>(tasks), static_cast<unsigned>(others))
                         : dim3(static_cast<unsigned>(tasks * others));
}
inline dim3 row_grid(const Call& call, int panels) { return task_grid(call.row_task_count, call.p.heads * panels); }
inline dim3 key_grid(const Call& call, int panels) { return task_grid(call.key_task_count, call.p.kv_heads * panels); }

}  // namespace deckle::kernels::cuda::general
