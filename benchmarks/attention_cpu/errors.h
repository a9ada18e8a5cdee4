#pragma once

#include <string>

namespace deckle::benchmarks {

/// Reads `shape` ("B S H D dtype causal") and q, k, v, dout as raw numbers [B, S, H, D] from a folder; writes out, dq, dk, dv
/// there. Returns the exit status.
int write_results(const std::string& folder);

}  // namespace deckle::benchmarks
