// The definition of attention, its gradients and its tangents, on float32 operands, in float64 or, to see what that costs, in
// float32: a row at a time, knowing nothing of tiles.
#pragma once

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::testing {

/// Contiguous [rows, heads, dim], packed; null where not wanted.
struct PairOperands {
  const float *q = nullptr, *k = nullptr, *v = nullptr;     // of rows of queries and of keys
  const float *tq = nullptr, *tk = nullptr, *tv = nullptr;  // tangents; null: zero
  const float *grad_out = nullptr, *grad_lse = nullptr;     // null: zero
  const float *grad_out_tangent = nullptr, *grad_lse_tangent = nullptr;
  const int64_t *query_offsets = nullptr, *key_offsets = nullptr, *key_lengths = nullptr;
};

template <class T>
struct PairResults {
  T *out = nullptr, *lse = nullptr, *tangent = nullptr, *lse_tangent = nullptr;
  T *grad_q = nullptr, *grad_k = nullptr, *grad_v = nullptr;        // the last two zeros at first
  T *second_q = nullptr, *second_k = nullptr, *second_v = nullptr;  // tangents of those, likewise
};

/// Of the problem: sizes, mask, scale and sinks.
template <class T>
void reference_pairs(const kernels::CudaAttentionProblem& problem, const PairOperands& x, const PairResults<T>& y, int64_t rows);

}  // namespace deckle::testing
