// Sequences, heads and elements as device code reads them.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "deckle/kernels/cuda/general_attention/call.h"

namespace deckle::kernels::cuda::general {

/// One head of one sequence: M queries and N keys, query i at key position i + diagonal.
struct Head {
  int sequence, head, kv_head, queries, keys, diagonal;
  int64_t first_row, first_key;

  __device__ Head(const AttentionProblem& p, int sequence, int head)
      : sequence(sequence), head(head), kv_head(head / static_cast<int>(p.heads / p.kv_heads)) {
    first_row = p.q_offsets[sequence];
    first_key = p.k_offsets[sequence];
    queries = static_cast<int>(p.q_lengths != nullptr ? p.q_lengths[sequence] : p.q_offsets[sequence + 1] - first_row);
    keys = static_cast<int>(p.k_lengths != nullptr ? p.k_lengths[sequence] : p.k_offsets[sequence + 1] - first_key);
    diagonal = p.alignment == AttentionAlignment::top_left ? 0 : keys - queries;
  }
  /// Index of a statistic, [packed row, head].
  __device__ int64_t statistic(const AttentionProblem& p, int row) const { return (first_row + row) * p.heads + head; }
};

/// The task of a block, and which of those with the same task it is (task_grid, kernels.h): by heads and panels.
struct TaskBlock {
  Task task;
  int rest;

  __device__ TaskBlock(const Task* tasks, int64_t count)
      : task(tasks[blockIdx.x % static_cast<unsigned>(count)]),
        rest(static_cast<int>(blockIdx.x / static_cast<unsigned>(count) + blockIdx.y)) {}
};

__device__ __forceinline__ bool unwanted(const Call& call) { return call.wanted != nullptr && *call.wanted == 0; }

/// Element `at` of an array of `dtype` as T, which is double for float64 arrays alone.
template <typename T>
__device__ __forceinline__ T load(const void* data, int64_t at, DType dtype) {
  if constexpr (sizeof(T) == 8) {
    return static_cast<const double*>(data)[at];
  } else {
    if (dtype == DType::float32) return static_cast<const float*>(data)[at];
    if (dtype == DType::bfloat16) return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
    return __half2float(static_cast<const __half*>(data)[at]);
  }
}

template <typename T>
__device__ __forceinline__ void store(void* data, int64_t at, DType dtype, T value) {
  if constexpr (sizeof(T) == 8) {
    static_cast<double*>(data)[at] = value;
  } else if (dtype == DType::float32) {
    static_cast<float*>(data)[at] = value;
  } else if (dtype == DType::bfloat16) {
    static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16_rn(value);
  } else {
    static_cast<__half*>(data)[at] = __float2half_rn(value);
  }
}

/// A number of each head, of the dtype of statistics; `none` where it is not given.
template <typename T>
__device__ __forceinline__ T of_head(const void* data, int head, T none) {
  return data != nullptr ? static_cast<const T*>(data)[head] : none;
}

template <typename T>
__device__ __forceinline__ T infinity() {
  return static_cast<T>(__int_as_float(0x7f800000));
}

}  // namespace deckle::kernels::cuda::general
