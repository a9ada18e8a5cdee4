// The table of features by derivatives by devices, asked of the candidates themselves.

#include <fmt/format.h>

#include <vector>

#include "deckle/attention/candidates.h"

namespace deckle {
namespace {

/// One sequence that a candidate serves as it stands, for features to be added to.
struct Probe {
  AttentionRequest request;
  int64_t q_offsets[2] = {0, 0}, k_offsets[2] = {0, 0}, k_length = 100;
  int64_t bias_offset = 0;
  int32_t bounds[4] = {};
  uint8_t byte = 0;

  explicit Probe(AttentionKernel kernel) {
    AttentionProblem& p = request.problem;
    p.dtype = DType::bfloat16;
    p.sequences = 1;
    p.heads = p.kv_heads = 4;
    p.head_dim = p.value_dim = 64;
    q_offsets[1] = kernel == AttentionKernel::decode ? 1 : 128;
    k_offsets[1] = 128;
  }
  /// The request, pointing into this probe.
  const AttentionRequest& ready() {
    request.problem.q_offsets = q_offsets;
    request.problem.k_offsets = k_offsets;
    return request;
  }
};

struct Feature {
  const char* name;
  void (*add)(Probe&);
};

constexpr Feature kFeatures[] = {
    {"bfloat16, D = Dv = 64; so are the others but for what they name", [](Probe&) {}},
    {"float16", [](Probe& x) { x.request.problem.dtype = DType::float16; }},
    {"float32", [](Probe& x) { x.request.problem.dtype = DType::float32; }},
    {"float64", [](Probe& x) { x.request.problem.dtype = DType::float64; }},
    {"D = 192, Dv = 128", [](Probe& x) { x.request.problem.head_dim = 192, x.request.problem.value_dim = 128; }},
    {"D = Dv = 80", [](Probe& x) { x.request.problem.head_dim = x.request.problem.value_dim = 80; }},
    {"any D and Dv (7 and 33)", [](Probe& x) { x.request.problem.head_dim = 7, x.request.problem.value_dim = 33; }},
    {"shared key heads", [](Probe& x) { x.request.problem.kv_heads = 2; }},
    {"other lengths of k than of q", [](Probe& x) { x.k_offsets[1] = 300; }},
    {"no keys", [](Probe& x) { x.k_offsets[1] = 0; }},
    {"spare rows behind the keys (a cache that grows, padding)", [](Probe& x) { x.request.problem.k_lengths = &x.k_length; }},
    {"causal, either alignment",
     [](Probe& x) { x.request.problem.causal = true, x.request.problem.alignment = AttentionAlignment::top_left; }},
    {"window", [](Probe& x) { x.request.problem.window_left = x.request.problem.window_right = 5; }},
    {"masks of one range a row (prefix-LM, sorted documents)",
     [](Probe& x) {
       x.request.problem.ranges = {x.bounds, 1};
     }},
    {"masks of several ranges a row (or, not)",
     [](Probe& x) {
       x.request.problem.ranges = {x.bounds, 2};
     }},
    {"boolean masks", [](Probe& x) { x.request.problem.mask.data = &x.byte; }},
    {"bias [B, H, M, N], N % 8 = 0, and its gradient", [](Probe& x) { x.request.bias = true; }},
    {"bias [B, H, 1, N], N % 8 = 0, and its gradient", [](Probe& x) { x.request.bias = true, x.request.bias_of_rows = false; }},
    {"ragged bias [B, M_b, N_b] and its gradient",
     [](Probe& x) {
       x.request.bias = true, x.request.bias_in_pieces = false;
       x.request.problem.bias_offsets = &x.bias_offset;
     }},
    {"any other bias and its gradient", [](Probe& x) { x.request.bias = true, x.request.bias_in_pieces = false; }},
    {"slopes (ALiBi) and their gradient", [](Probe& x) { x.request.slopes = true; }},
    {"table by distance and its gradient", [](Probe& x) { x.request.table = true; }},
    {"sinks and their gradient", [](Probe& x) { x.request.sinks = true; }},
    {"soft cap", [](Probe& x) { x.request.problem.soft_cap = 30; }},
    {"dropout", [](Probe& x) { x.request.problem.dropout.threshold = 26; }},
};

constexpr const char* kPasses[kAttentionPasses] = {"F", "B", "T", "S", "M"};

}  // namespace

std::string attention_feature_table() {
  std::string header = "| feature |", line = "|---|", text;
  for (const AttentionCandidate& candidate : attention_candidates()) {
    header += fmt::format(" {} {} |", candidate.device, candidate.name);
    line += "---|";
  }
  for (const Feature& feature : kFeatures) {
    text += fmt::format("| {} |", feature.name);
    for (const AttentionCandidate& candidate : attention_candidates()) {
      Probe probe(candidate.kernel);
      feature.add(probe);
      std::string served;
      for (int pass = 0; pass < kAttentionPasses; ++pass) {
        probe.request.pass = static_cast<AttentionPass>(pass);
        if (candidate.why_not(probe.ready()).empty()) served += fmt::format(" {}", kPasses[pass]);
      }
      text += fmt::format("{} |", served.empty() ? " –" : served);
    }
    text += "\n";
  }
  return header + "\n" + line + "\n" + text;
}

}  // namespace deckle
