#pragma once

#include <string>

#include "deckle/kernels/args/attention.h"
#include "deckle/kernels/args/context.h"

// Attention on packed rows, fused over tiles: no [M, N] array is ever stored, nothing is padded, and results are bit-equal
// for any number of threads. Formulas and names: docs/attention.md.

namespace deckle::kernels::cpu {

/// Empty if the fused kernels serve `problem`, else the reason, starting with the argument to change.
std::string attention_fused_why_not(const AttentionProblem& problem);

/// result = attention(operands). A row without allowed keys (and without a finite sink) gives out 0 and lse -inf.
void attention_forward(const CpuContext&, const AttentionProblem& problem, const AttentionOperands& operands,
                       const AttentionResults& result);

/// gradient = vjp of (out, lse) along `cotangent`; parts of `gradient` that are null are not computed, a null cotangent.lse
/// is zero. `result` is what the forward wrote. Gradients are overwritten; they alias no input.
void attention_backward(const CpuContext&, const AttentionProblem& problem, const AttentionOperands& operands,
                        const AttentionResults& result, const AttentionResults& cotangent, const AttentionOperands& gradient);

}  // namespace deckle::kernels::cpu
