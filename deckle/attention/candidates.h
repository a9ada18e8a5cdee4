#pragma once

#include <string>
#include <vector>

#include "deckle/kernels/args/attention_candidates.h"

namespace deckle {

/// All families of kernels, of every device, in order of preference; those of a GPU also where it is not built.
std::vector<AttentionCandidate> attention_candidates();

/// The first candidate of `device` that serves the request, or the one that DECKLE_FORCE=attention:NAME asks for. An Error if
/// there is none, with the problem and every candidate's reason.
AttentionKernel choose_attention_kernel(const AttentionRequest& request, const std::string& device);

/// Whether DECKLE_FORCE=attention:NAME asks for one.
bool attention_kernel_is_forced();

/// The problem in one line.
std::string describe(const AttentionRequest& request);

/// What runs for each pass of a request, and why not the other candidates.
std::string explain(AttentionRequest request, const std::string& device, const std::string& copies = {});

/// The table of docs/attention.md: for each feature, which passes each candidate serves.
std::string attention_feature_table();

}  // namespace deckle
