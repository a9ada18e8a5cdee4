#pragma once

#include "deckle/attention/attention.h"
#include "deckle/kernels/args/attention_plan.h"

namespace deckle {

/// Decides one call on packed operands q [Tq, H, D], k [Tk, Hk, D], v [Tk, Hk, Dv], whose sequences lie where the ragged
/// shapes say. Throws for combinations that have no meaning.
Plan make_attention_plan(const Tensor& q, const Tensor& k, const Tensor& v, const Ragged& q_rows, const Ragged& k_rows,
                         const AttentionOptions& options);

}  // namespace deckle
