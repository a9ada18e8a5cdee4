#pragma once

#include "deckle/kernels/args/attention.h"

namespace deckle::kernels::cpu {

/// attention_jvp with outputs of `out_dtype`: the second-order pass needs them unrounded.
void attention_jvp_as(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionOperands& tangent,
                      const AttentionResults& result, const AttentionResults& result_tangent, DType out_dtype);

}  // namespace deckle::kernels::cpu
