// What each CPU kernel does not support, and why.

#include <fmt/format.h>

#include <cmath>

#include "deckle/base/error.h"
#include "deckle/kernels/args/attention_candidates.h"
#include "deckle/kernels/cpu/attention/attention.h"
#include "deckle/kernels/cpu/attention/decode.h"
#include "deckle/kernels/cpu/attention/require.h"

namespace deckle::kernels::cpu {
namespace {

/// Empty if the decoding kernel supports sequence b, else the reason.
const char* decode_why_not(const AttentionRequest& request, int64_t b) {
  const AttentionProblem& p = request.problem;
  if (p.rows(b) < 1 || p.rows(b) * p.group() > kDecodeRows)
    return "not 1 to 8 rows per key head (serves a few rows on many keys)";
  if (request.bias || request.slopes || request.table || p.soft_cap != 0 || p.mask.data != nullptr || p.ranges.count > 1 ||
      p.dropout.threshold != 0) {
    return "a bias, slopes, table, soft cap, dropout, or a mask of several ranges (serves causal masks, windows, one range a "
           "row, and sinks)";
  }
  return "";
}

std::string decode_refuses(const AttentionRequest& request) {
  if (std::string reason = attention_fused_why_not(request.problem); !reason.empty()) return reason;
  if (request.pass != AttentionPass::forward) return "a derivative is asked for (serves the forward)";
  for (int64_t b = 0; b < request.problem.sequences; ++b) {
    if (const char* reason = decode_why_not(request, b); *reason != '\0') return fmt::format("sequence {}: {}", b, reason);
  }
  return {};
}

std::string fused_refuses(const AttentionRequest& request) { return attention_fused_why_not(request.problem); }

}  // namespace

std::vector<uint8_t> decoded_sequences(const AttentionRequest& request) {
  std::vector<uint8_t> decoded(static_cast<size_t>(request.problem.sequences));
  for (int64_t b = 0; b < request.problem.sequences; ++b) decoded[static_cast<size_t>(b)] = *decode_why_not(request, b) == '\0';
  return decoded;
}

std::string attention_fused_why_not(const AttentionProblem& p) {
  if (!is_floating(p.dtype)) return fmt::format("dtype is {} (serves float64, float32, bfloat16, float16)", name(p.dtype));
  if (p.head_dim < 1 || p.value_dim < 1)
    return fmt::format("head dims are {} and {} (serves 1 and more)", p.head_dim, p.value_dim);
  if (p.kv_heads < 1 || p.heads < 1 || p.heads % p.kv_heads != 0) {
    return fmt::format("{} heads on {} key heads (serves a multiple of the key heads)", p.heads, p.kv_heads);
  }
  if (!std::isfinite(p.scale)) return fmt::format("scale is {} (serves finite scales)", p.scale);
  if (!std::isfinite(p.soft_cap) || p.soft_cap < 0)
    return fmt::format("soft cap is {} (serves 0 for none, or a positive cap)", p.soft_cap);
  if (p.dropout.threshold < 0 || p.dropout.threshold > 256) {
    return fmt::format("dropout threshold is {} (serves 0 to 256, in 256ths)", p.dropout.threshold);
  }
  for (int64_t b = 0; b < p.sequences; ++b) {
    if (p.rows(b) < 0 || p.keys(b) < 0)
      return fmt::format("sequence {} has {} rows and {} keys (serves 0 and more)", b, p.rows(b), p.keys(b));
    if (p.rows(b) > kMaxAttentionLength || p.keys(b) > kMaxAttentionLength) {
      return fmt::format("sequence {} has {} rows and {} keys (serves up to {})", b, p.rows(b), p.keys(b), kMaxAttentionLength);
    }
  }
  return {};
}

void require_served(const AttentionProblem& problem) {
  if (const std::string reason = attention_fused_why_not(problem); !reason.empty()) throw Error(reason);
}

std::span<const AttentionCandidate> attention_candidates() {
  static constexpr AttentionCandidate kCandidates[] = {
      {AttentionKernel::decode, "decode", "cpu", false, decode_refuses},
      {AttentionKernel::fused, "fused", "cpu", false, fused_refuses},
      {AttentionKernel::reference, "reference", "cpu", true, fused_refuses},
  };
  return kCandidates;
}

}  // namespace deckle::kernels::cpu
