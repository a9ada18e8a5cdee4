#pragma once

#include <span>
#include <utility>

#include "deckle/kernels/args/attention_candidates.h"

namespace deckle {

/// Whether all sequences have one length, of queries and of keys: then kernels are told no offsets.
bool is_dense(const AttentionProblem& p);

/// (D, Dv) that the Hopper kernels are compiled for; ops/instances.yaml lists them.
std::span<const std::pair<int64_t, int64_t>> hopper_head_dims();

/// The kernels of kernels/cuda/attention. Their arguments (kernels/args/attention_cuda.h) hold a band and nothing else besides
/// q, k and v; this says so in terms of a whole problem.
std::span<const AttentionCandidate> cuda_attention_candidates();

}  // namespace deckle
