// Gradients of what is added to scores elementwise: the bias, in its own shape, and the table by distance.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda::attention::portable {

/// Row statistics of the backward, of one head side by side: plane (sequence, head) of `query_rows`, or plane head if ragged.
struct RowStatistics {
  float* lse2;         // lse, in log2 units where scores have no features; +inf where a row attends nothing: p = 0, delta = 0
  float* delta;        // Σ do · out - dlse
  int64_t query_rows;  // of all sequences, dense: of one
};

/// Rows that a sink keeps alive although masks of ranges or bytes leave them no key get lse2 = +inf, too. One launch, or none.
void mark_rows_without_keys(const CudaAttentionProblem& problem, const RowStatistics& statistics, cudaStream_t stream);

/// The same in the row statistics of Hopper's backward: of live rows alone, `head_rows` a head, each sequence from a multiple
/// of `unit` on.
void mark_live_rows_without_keys(const CudaAttentionProblem& problem, float* lse2, float* delta, int64_t head_rows, int unit,
                                 cudaStream_t stream);

/// Bytes that table_gradients takes.
int64_t table_gradient_bytes(const CudaAttentionProblem& problem);

/// Whatever of grad_bias and grad_table is wanted; bit-equal from run to run.
void plane_gradients(const AttentionBackward& arguments, const RowStatistics& statistics, void* memory, cudaStream_t stream);

/// grad_bias alone, of whichever shape, for a backward of other kernels: it makes row statistics of its own.
void bias_gradient(const AttentionBackward& arguments, void* memory, cudaStream_t stream);

/// Bytes that bias_gradient takes.
int64_t bias_gradient_bytes(const CudaAttentionProblem& problem);

/// Shared memory of a block.
int plane_shared_bytes(const CudaAttentionProblem& problem);

}  // namespace deckle::kernels::cuda::attention::portable
