#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "deckle/kernels/args/attention.h"

namespace deckle {

/// The passes of attention: forward, and each way to differentiate it.
enum class AttentionPass : uint8_t { forward, backward, jvp, second, mixed };
inline constexpr int kAttentionPasses = 5;

/// Families of kernels.
enum class AttentionKernel : uint8_t { decode, fused, reference, hopper, portable, general };

/// A problem, the pass, and which optional operands are given besides q, k and v.
struct AttentionRequest {
  AttentionProblem problem;
  AttentionPass pass = AttentionPass::forward;
  bool bias = false, slopes = false, table = false, sinks = false;
  bool bias_in_pieces = true;  // it is dense, and its rows can be read 16 bytes at a time; of one that lies sequence by sequence
                               // (AttentionProblem::bias_offsets) a copy is
  bool bias_of_rows = true;    // it is not broadcast over rows
  /// The device's compute capability and a block's shared memory there; 0: not known, and nothing is refused for it.
  int capability_major = 0, capability_minor = 0, block_bytes = 0;

  bool operator==(const AttentionRequest&) const = default;
};

/// A family of kernels and what it refuses.
struct AttentionCandidate {
  AttentionKernel kernel;
  const char* name;
  const char* device;
  bool only_if_asked;                               // never chosen unless DECKLE_FORCE names it
  std::string (*why_not)(const AttentionRequest&);  // empty if it supports the request; else the reason and what it does support
};

namespace kernels::cpu {
/// Which sequences of a forward run in the decoding kernel, for AttentionProblem::decoded.
std::vector<uint8_t> decoded_sequences(const AttentionRequest& request);

/// Defined next to the kernels, in order of preference.
std::span<const AttentionCandidate> attention_candidates();
}  // namespace kernels::cpu

}  // namespace deckle
