#include "deckle/attention/candidates.h"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "deckle/attention/cuda_candidates.h"
#include "deckle/base/check.h"

namespace deckle {
namespace {

/// NAME of DECKLE_FORCE=attention:NAME; empty if nothing is asked for.
std::string_view asked_kernel() {
  constexpr std::string_view kPrefix = "attention:";
  const char* const text = std::getenv("DECKLE_FORCE");
  if (text == nullptr || !std::string_view(text).starts_with(kPrefix)) return {};
  return std::string_view(text).substr(kPrefix.size());
}

/// Why the candidate will not run, by its own limits or by what is asked for.
std::string refusal(const AttentionCandidate& candidate, const AttentionRequest& request) {
  const std::string_view asked = asked_kernel();
  if (!asked.empty() && asked != candidate.name) return fmt::format("DECKLE_FORCE asks for {}", asked);
  if (asked.empty() && candidate.only_if_asked)
    return fmt::format("runs only where DECKLE_FORCE=attention:{} asks for it", candidate.name);
  return candidate.why_not(request);
}

std::string range(int64_t low, int64_t high) { return low == high ? fmt::format("{}", low) : fmt::format("{} to {}", low, high); }

}  // namespace

bool attention_kernel_is_forced() { return !asked_kernel().empty(); }

std::vector<AttentionCandidate> attention_candidates() {
  const auto cpu = kernels::cpu::attention_candidates(), cuda = cuda_attention_candidates();
  std::vector<AttentionCandidate> all(cpu.begin(), cpu.end());
  all.insert(all.end(), cuda.begin(), cuda.end());
  return all;
}

AttentionKernel choose_attention_kernel(const AttentionRequest& request, const std::string& device) {
  std::string reasons;
  for (const AttentionCandidate& candidate :
       device == "cpu" ? kernels::cpu::attention_candidates() : cuda_attention_candidates()) {
    const std::string reason = refusal(candidate, request);
    if (reason.empty()) return candidate.kernel;
    reasons += fmt::format("\n  {}: {}", candidate.name, reason);
  }
  fail(ErrorKind::not_implemented, "no kernel on {} serves {}{}", device, describe(request), reasons);
}

std::string describe(const AttentionRequest& request) {
  const AttentionProblem& p = request.problem;
  int64_t rows[2] = {INT64_MAX, 0}, keys[2] = {INT64_MAX, 0};
  for (int64_t b = 0; b < p.sequences; ++b) {
    rows[0] = std::min(rows[0], p.rows(b)), rows[1] = std::max(rows[1], p.rows(b));
    keys[0] = std::min(keys[0], p.keys(b)), keys[1] = std::max(keys[1], p.keys(b));
  }
  std::string text = fmt::format("{} of {}, {} heads on {}, D {}, Dv {}, {} sequences",
                                 request.pass == AttentionPass::forward ? "attention" : "a derivative of attention",
                                 name(p.dtype), p.heads, p.kv_heads, p.head_dim, p.value_dim, p.sequences);
  if (p.sequences > 0) text += fmt::format(" of {} rows on {} keys", range(rows[0], rows[1]), range(keys[0], keys[1]));
  if (p.k_lengths != nullptr) text += ", spare rows behind the keys";
  if (p.causal) text += ", causal";
  if (p.window_left >= 0 || p.window_right >= 0) text += fmt::format(", window {}, {}", p.window_left, p.window_right);
  if (p.causal || p.window_left >= 0 || p.window_right >= 0)
    text += p.alignment == AttentionAlignment::top_left ? ", top-left" : ", bottom-right";
  if (p.ranges.bounds != nullptr)
    text += fmt::format(", {} range{} of keys a row", p.ranges.count, p.ranges.count == 1 ? "" : "s");
  if (p.mask.data != nullptr) text += ", boolean mask";
  if (request.bias)
    text += fmt::format(", {}bias{}", p.bias_offsets != nullptr ? "ragged " : "", p.bias_before_cap ? " before the cap" : "");
  if (request.slopes) text += ", slopes";
  if (request.table) text += fmt::format(", table of reach {}", p.table_reach);
  if (request.sinks) text += ", sinks";
  if (p.soft_cap != 0) text += fmt::format(", soft cap {}", p.soft_cap);
  if (p.dropout.threshold != 0) text += fmt::format(", dropout {}/256", p.dropout.threshold);
  return text;
}

std::string explain(AttentionRequest request, const std::string& device, const std::string& copies) {
  std::string text = describe(request) + ", on " + device + "\n" + copies;
  constexpr const char* kNames[kAttentionPasses] = {"forward", "backward", "forward mode", "second order",
                                                    "forward over forward"};
  for (int pass = 0; pass < kAttentionPasses; ++pass) {
    request.pass = static_cast<AttentionPass>(pass);
    const AttentionKernel chosen = choose_attention_kernel(request, device);
    std::string serves, others;
    for (const AttentionCandidate& candidate : attention_candidates()) {
      if (device != candidate.device) {  // both devices have a decode
        others += fmt::format("    not {} {}: q is on {}\n", candidate.device, candidate.name, device);
        continue;
      }
      const std::string reason = refusal(candidate, request);
      if (candidate.kernel == chosen) {
        serves = candidate.name;
      } else {
        others += fmt::format("    not {}: {}\n", candidate.name, reason.empty() ? "comes later" : reason);
      }
    }
    text += fmt::format("  {}: {}\n{}", kNames[pass], serves, others);
  }
  return text;
}

}  // namespace deckle
