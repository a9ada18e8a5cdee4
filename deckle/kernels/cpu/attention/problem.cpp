#include <fmt/format.h>

#include <cmath>

#include "deckle/base/error.h"
#include "deckle/kernels/cpu/attention/attention.h"
#include "deckle/kernels/cpu/attention/require.h"

namespace deckle::kernels::cpu {

std::string attention_fused_why_not(const AttentionProblem& p) {
  if (!is_floating(p.dtype)) return fmt::format("dtype is {} (serves float64, float32, bfloat16, float16)", name(p.dtype));
  if (p.head_dim < 1 || p.value_dim < 1) return fmt::format("head dims are {} and {} (serves 1 and more)", p.head_dim, p.value_dim);
  if (p.kv_heads < 1 || p.heads < 1 || p.heads % p.kv_heads != 0) {
    return fmt::format("{} heads on {} key heads (serves a multiple of the key heads)", p.heads, p.kv_heads);
  }
  if (!std::isfinite(p.scale)) return fmt::format("scale is {} (serves finite scales)", p.scale);
  if (!std::isfinite(p.soft_cap) || p.soft_cap < 0) return fmt::format("soft cap is {} (serves 0 for none, or a positive cap)", p.soft_cap);
  if (p.dropout.threshold < 0 || p.dropout.threshold > 256) {
    return fmt::format("dropout threshold is {} (serves 0 to 256, in 256ths)", p.dropout.threshold);
  }
  for (int64_t b = 0; b < p.sequences; ++b) {
    if (p.rows(b) < 0 || p.keys(b) < 0) return fmt::format("sequence {} has {} rows and {} keys (serves 0 and more)", b, p.rows(b), p.keys(b));
    if (p.rows(b) > kMaxAttentionLength || p.keys(b) > kMaxAttentionLength) {
      return fmt::format("sequence {} has {} rows and {} keys (serves up to {})", b, p.rows(b), p.keys(b), kMaxAttentionLength);
    }
  }
  return {};
}

void require_served(const AttentionProblem& problem) {
  if (const std::string reason = attention_fused_why_not(problem); !reason.empty()) throw Error(reason);
}

}  // namespace deckle::kernels::cpu
