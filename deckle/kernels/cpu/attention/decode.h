#pragma once

#include "deckle/kernels/args/attention.h"

namespace deckle::kernels::cpu {

/// Maximal number of rows that share a key head: up to here vectors along the head dim waste fewer lanes than vectors of rows.
inline constexpr int64_t kDecodeRows = 8;

/// attention_forward of the sequences selected by problem.decoded; writes no other.
void attention_decode(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionResults& result);

}  // namespace deckle::kernels::cpu
