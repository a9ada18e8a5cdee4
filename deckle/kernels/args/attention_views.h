#pragma once

#include <algorithm>

#include "deckle/kernels/args/attention_plan.h"
#include "deckle/kernels/args/generated/attention.h"
#include "deckle/kernels/args/view.h"

// From the views that the ops of attention hand over to the arguments of its kernels.

namespace deckle::kernels {

/// [T, heads, dim] with unit stride along dim; nothing for a tensor that was not given or has no elements.
inline AttentionRows attention_rows(const View& view) {
  if (!view.defined || view.ndim != 3) return {};
  return {view.data, view.strides[0], view.strides[1]};
}

/// [B, H, M, N], each or 1, or the packed values of a ragged bias; dims of size 1 are broadcast.
inline AttentionPlane attention_plane(const View& view, const AttentionProblem& problem) {
  if (!view.defined || view.data == nullptr) return {};
  if (problem.bias_offsets != nullptr) return {view.data, 1, 0, 1, 1};
  const auto stride = [&](int dim) { return view.sizes[dim] == 1 ? int64_t{0} : view.strides[dim]; };
  return {view.data, stride(0), stride(1), stride(2), stride(3)};
}

inline AttentionOperands attention_operands(const AttentionProblem& problem, const AttentionInputsView& x) {
  const auto data = [](const View& view) { return view.defined ? view.data : nullptr; };
  return {attention_rows(x.q), attention_rows(x.k), attention_rows(x.v), attention_plane(x.bias, problem),
          data(x.slopes),      data(x.sinks),       data(x.table)};
}

inline AttentionResults attention_results(const AttentionOutputsView& y) {
  return {attention_rows(y.out), y.lse.defined ? y.lse.data : nullptr};
}

/// Whether the sequences reach every row and key of a dense bias; a gradient is 0 where none does.
inline bool sequences_reach(const AttentionProblem& problem, const View& bias) {
  bool reached = problem.sequences > 0;
  for (int64_t b = 0; b < problem.sequences; ++b)
    reached &= bias.sizes[2] <= std::max<int64_t>(problem.rows(b), 1) && bias.sizes[3] <= std::max<int64_t>(problem.keys(b), 1);
  return reached;
}

}  // namespace deckle::kernels
