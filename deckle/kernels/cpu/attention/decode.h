#pragma once

#include "deckle/kernels/cpu/attention/geometry.h"

namespace deckle::kernels::cpu {

/// Rows that share a key head: with so few, vectors along the head dim waste less than vectors of rows.
inline constexpr int64_t kDecodeRows = 8;

/// Empty if the decoding kernel serves sequence b, else the reason.
inline const char* decode_why_not(const AttentionProblem& problem, const AttentionOperands& x, int64_t b) {
  if (problem.rows(b) < 1 || problem.rows(b) * problem.group() > kDecodeRows)
    return "not 1 to 8 rows per key head (serves a few rows on many keys)";
  if (x.bias.data != nullptr || x.slopes != nullptr || x.table != nullptr || problem.soft_cap != 0 ||
      problem.mask.data != nullptr || problem.ranges.count > 1 || problem.dropout.threshold != 0) {
    return "a bias, slopes, table, soft cap, dropout, or a mask of several ranges (serves causal masks, windows, one range a "
           "row, and sinks)";
  }
  return "";
}

/// attention_forward of the sequences that decode_why_not lets pass; touches no other.
void attention_decode(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionResults& result);

}  // namespace deckle::kernels::cpu
