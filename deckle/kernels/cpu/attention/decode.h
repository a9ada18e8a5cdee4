#pragma once

#include "deckle/kernels/args/attention.h"

namespace deckle::kernels::cpu {

/// Rows that share a key head at most: with so few, vectors along the head dim waste less than vectors of rows.
inline constexpr int64_t kDecodeRows = 8;

/// attention_forward of the sequences that problem.decoded names; touches no other.
void attention_decode(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionResults& result);

}  // namespace deckle::kernels::cpu
