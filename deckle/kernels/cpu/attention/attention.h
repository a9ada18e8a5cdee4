#pragma once

#include <string>

#include "deckle/kernels/args/attention.h"
#include "deckle/kernels/args/context.h"

// Attention on packed rows, fused over tiles: no [M, N] array is materialised, nothing is padded, and results are bit-equal for
// any number of threads. Formulas and names: docs/attention.md.

namespace deckle::kernels::cpu {

/// Empty if the fused kernels support `problem`, else the reason, starting with the argument to change.
std::string attention_fused_why_not(const AttentionProblem& problem);

/// result = attention(operands). A row without allowed keys (and without a finite sink) gives out 0 and lse -inf.
void attention_forward(const Context&, const AttentionProblem& problem, const AttentionOperands& operands,
                       const AttentionResults& result);

/// gradient = vjp of (out, lse) along `cotangent`; parts of `gradient` that are null are not computed, a null cotangent.lse
/// is zero. `result` is the forward's output. Gradients are overwritten; they alias no input.
void attention_backward(const Context&, const AttentionProblem& problem, const AttentionOperands& operands,
                        const AttentionResults& result, const AttentionResults& cotangent, const AttentionOperands& gradient);

/// result_tangent = jvp of (out, lse) along `tangent`, whose null parts count as zero; `result` is written as well, where it is
/// given.
void attention_jvp(const Context&, const AttentionProblem& problem, const AttentionOperands& operands,
                   const AttentionOperands& tangent, const AttentionResults& result, const AttentionResults& result_tangent);

/// Forward over forward: mixed = d2 (out, lse) along a and b, where the operands move as x + s a + t b + s t ab. Null parts count
/// as zero.
void attention_mixed(const Context&, const AttentionProblem& problem, const AttentionOperands& operands,
                     const AttentionOperands& a, const AttentionOperands& b, const AttentionOperands& ab,
                     const AttentionResults& mixed);

/// The tangent of attention_backward: how the gradients along `cotangent` move when the operands move along `tangent` and the
/// cotangent along `cotangent_tangent` (null: does not move). Three modes in one:
///   double backward        tangent = cotangents of the gradients; gradient_tangent and result_tangent are the gradients to the
///                          operands and to the cotangent. Total derivatives: nothing flows to the saved result.
///   forward over reverse   gradient_tangent is the tangent of the gradients.
///   reverse over forward   cotangent = that of result_tangent, cotangent_tangent = that of result; gradient_tangent goes to the
///                          operands (attention_backward along the former goes to the tangent).
/// `result` is what the forward wrote; `result_tangent` (the jvp) is written where given.
void attention_second(const Context&, const AttentionProblem& problem, const AttentionOperands& operands,
                      const AttentionOperands& tangent, const AttentionResults& result, const AttentionResults& cotangent,
                      const AttentionResults& cotangent_tangent, const AttentionOperands& gradient_tangent,
                      const AttentionResults& result_tangent);

}  // namespace deckle::kernels::cpu
