#pragma once

#include "deckle/kernels/args/attention.h"

// Attention by its definition, in float64, one dense [M, N] array per quantity: the reference for every other kernel. Same
// arguments as attention.h; results are rounded to the problem's dtype once, at the end.

namespace deckle::kernels::cpu::reference {

void attention_forward(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionResults& result);

void attention_backward(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionResults& cotangent,
                        const AttentionOperands& gradient);

/// Also writes `result` where it is given.
void attention_jvp(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionOperands& tangent,
                   const AttentionResults& result, const AttentionResults& result_tangent);

/// d2 (out, lse) along a and b.
void attention_mixed(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionOperands& a,
                     const AttentionOperands& b, const AttentionOperands& ab, const AttentionResults& mixed);

/// The tangent of attention_backward along (tangent, cotangent_tangent).
void attention_second(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionOperands& tangent,
                      const AttentionResults& cotangent, const AttentionResults& cotangent_tangent,
                      const AttentionOperands& gradient_tangent);

/// The dropout factor's keep bit of one element, by the contract.
bool dropout_keeps(const AttentionDropout& dropout, int64_t sequence, int64_t head, int64_t row, int64_t column);

}  // namespace deckle::kernels::cpu::reference
