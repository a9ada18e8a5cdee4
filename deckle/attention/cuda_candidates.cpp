#include "deckle/attention/cuda_candidates.h"

#include <fmt/format.h>

#include <algorithm>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/args/attention_limits.h"

namespace deckle {

bool is_dense(const AttentionProblem& p) {
  if (!p.known() || p.bias_offsets != nullptr) return false;
  for (int64_t b = 1; b < p.sequences; ++b) {
    if (p.rows(b) != p.rows(0) || p.keys(b) != p.keys(0)) return false;
  }
  return p.k_lengths == nullptr;
}

namespace {

constexpr int64_t kMostRowsOfASequence = int64_t{1} << 24;

/// Rows that kernels are told of: of each sequence of a dense batch, of all of a ragged one.
struct Rows {
  bool ragged;
  int64_t queries = 0, keys = 0;            // of each, or of all
  int64_t most_queries = 0, most_keys = 0;  // of one

  explicit Rows(const AttentionProblem& p) : ragged(!is_dense(p)) {
    for (int64_t b = 0; b < p.sequences; ++b) {
      most_queries = std::max(most_queries, p.rows(b)), most_keys = std::max(most_keys, p.keys(b));
      const int64_t spare = p.k_offsets != nullptr ? p.k_offsets[b + 1] - p.k_offsets[b] : p.keys(b);
      queries += p.rows(b), keys += spare;
    }
    if (!ragged) queries = most_queries, keys = most_keys;
  }
};

std::string capability_why_not(const AttentionRequest& request, int lowest, bool newer) {
  const int major = request.capability_major;
  if (major == 0 || major == lowest || (newer && major > lowest)) return {};
  return fmt::format("the device has compute capability {}.{} (serves {}.{})", major, request.capability_minor, lowest,
                     newer ? "0 and newer" : "x");
}

std::string sizes_why_not(const AttentionProblem& p) {
  if (p.kv_heads < 1 || p.heads % p.kv_heads != 0)
    return fmt::format("{} heads on {} key heads (serves a multiple of the key heads)", p.heads, p.kv_heads);
  for (int64_t b = 0; b < p.sequences; ++b) {
    if (p.rows(b) > kMostRowsOfASequence || p.keys(b) > kMostRowsOfASequence)
      return fmt::format("sequence {} has {} rows and {} keys (serves up to {})", b, p.rows(b), p.keys(b), kMostRowsOfASequence);
  }
  if (p.heads > kernels::kMostHeads) return fmt::format("{} heads (serves up to {})", p.heads, kernels::kMostHeads);
  if (const Rows rows(p); p.known() && std::max(rows.queries, rows.keys) > kernels::kMostRows)
    return fmt::format("{} rows and {} keys in all (serves fewer than 2^30)", rows.queries, rows.keys);
  return {};
}

/// Tiles of `height` rows times heads, of the keys too where they own tiles.
std::string tiles_why_not(const AttentionProblem& p, int64_t height, bool of_keys) {
  if (!p.known()) return {};
  const Rows rows(p);
  const int64_t tiles = kernels::most_tiles_of(rows.ragged, std::max(rows.queries, of_keys ? rows.keys : 0), p.sequences, height);
  return tiles * p.heads < kernels::kMostTiles ? "" : fmt::format("more than 2^31 tiles of {} rows and a head", height);
}

/// Lists of the tiles that a mask of ranges or bytes leaves.
std::string walks_why_not(const AttentionRequest& request, int64_t compiled_dim) {
  const AttentionProblem& p = request.problem;
  if (p.ranges.bounds == nullptr && p.mask.data == nullptr) return {};
  const Rows rows(p);
  const bool backward = request.pass == AttentionPass::backward;
  const auto [owned, walked] = kernels::walk_tiles(backward, compiled_dim);
  const int64_t owners = kernels::most_tiles_of(rows.ragged, backward ? rows.keys : rows.queries, p.sequences, owned);
  const int64_t longest = ((backward ? rows.most_queries : rows.most_keys) + walked - 1) / walked;
  const int64_t visited = backward ? kernels::most_tiles_of(rows.ragged, rows.queries, p.sequences, walked) : 0;
  const int64_t bytes = kernels::walk_bytes(owners, longest, visited);
  return bytes <= kernels::kMostWalkBytes
             ? ""
             : fmt::format("lists of the tiles that the mask leaves would take {} MiB (serves up to {})", bytes >> 20,
                           kernels::kMostWalkBytes >> 20);
}

std::string refused_by_both(const AttentionRequest& request) {
  const AttentionProblem& p = request.problem;
  if (request.pass != AttentionPass::forward && request.pass != AttentionPass::backward) {
    return "forward mode or second order is asked for (serves the forward and the backward)";
  }
  if (p.dtype != DType::bfloat16 && p.dtype != DType::float16)
    return fmt::format("dtype is {} (serves bfloat16, float16)", name(p.dtype));
  if (p.soft_cap > kernels::kMostSoftCap)
    return fmt::format("soft cap is {} (serves 0, none, and up to {})", p.soft_cap, kernels::kMostSoftCap);
  return sizes_why_not(p);
}

/// Soft cap, slopes, bias, table, dropout, and masks that are no intervals.
std::string features_why_not(const AttentionRequest& request) {
  const AttentionProblem& p = request.problem;
  if (request.bias || request.table) return "a bias or a table is given (serves neither)";
  if (p.ranges.bounds != nullptr || p.mask.data != nullptr)
    return "the mask is more than causal masks and windows of one alignment";
  if (request.slopes) return "slopes are given (serves none)";
  if (p.soft_cap != 0) return fmt::format("soft cap is {} (serves 0, none)", p.soft_cap);
  return p.dropout.threshold != 0 ? "dropout is on (serves 0)" : "";
}

std::string dropout_why_not(const AttentionDropout& dropout) {
  if (dropout.threshold == 0 || (dropout.first_row % 16 == 0 && dropout.first_column % 16 == 0)) return {};
  return fmt::format("dropout begins at row {} and column {} (serves multiples of 16)", dropout.first_row, dropout.first_column);
}

/// Why the Hopper kernels refuse the features: their forward serves all of them, their backward dropout, soft cap, slopes and
/// masks, or a bias.
std::string hopper_features_why_not(const AttentionRequest& request) {
  const AttentionProblem& p = request.problem;
  if (std::string reason = dropout_why_not(p.dropout); !reason.empty()) return reason;
  const bool masked = p.ranges.bounds != nullptr || p.mask.data != nullptr;
  if (p.mask.data != nullptr && p.mask.head_stride != 0 && p.heads != 1)
    return "the boolean mask differs from head to head (serves one for all heads)";
  if (request.bias && !request.bias_in_pieces && p.bias_offsets == nullptr)
    return "the bias is broadcast over keys, or has rows that are no multiples of 16 bytes (serves neither)";
  if (request.pass == AttentionPass::forward) return {};
  if (p.soft_cap > 0 && p.soft_cap < kernels::kLeastSoftCapOfHopperBackward)
    return fmt::format("soft cap is {} (serves 0, none, and from {} on)", p.soft_cap, kernels::kLeastSoftCapOfHopperBackward);
  if (masked && request.bias) return "there is a bias beside a mask of ranges or bytes (serves one of them)";
  AttentionRequest others = request;
  others.bias = others.slopes = false;
  others.problem.dropout = {};
  others.problem.soft_cap = 0;
  others.problem.ranges = {};
  others.problem.mask = {};
  if (std::string reason = features_why_not(others); !reason.empty()) return reason;
  if (request.bias && p.dropout.threshold != 0) return "there are both a bias and dropout (serves one of them)";
  if (request.bias && (request.slopes || p.soft_cap != 0))
    return "there is a bias beside a soft cap or slopes (serves it with neither)";
  return request.bias && !request.bias_of_rows ? "the bias is broadcast over rows (serves one of each row)" : "";
}

std::string decode_refuses(const AttentionRequest& request) {
  const AttentionProblem& p = request.problem;
  if (std::string reason = capability_why_not(request, 8, true); !reason.empty()) return reason;
  if (request.pass != AttentionPass::forward) return "a derivative is asked for (serves the forward)";
  if (!request.problem.known()) return "the lengths are known on the device alone (serves lengths that the host knows)";
  if (std::string reason = refused_by_both(request); !reason.empty()) return reason;
  if (std::string reason = features_why_not(request); !reason.empty()) return reason;
  for (const int64_t dim : {p.head_dim, p.value_dim}) {
    if (dim < 8 || dim % 8 != 0 || dim > 256) return fmt::format("a head dim is {} (serves multiples of 8 up to 256)", dim);
  }
  constexpr int64_t kMostProduct = 32, kMostSequences = 65535, kLeastKeys = 64;
  int64_t keys = 0;
  for (int64_t b = 0; b < p.sequences; ++b) keys += p.keys(b);
  if (keys < kLeastKeys * p.sequences)
    return fmt::format("{} keys in {} sequences (serves {} or more a sequence)", keys, p.sequences, kLeastKeys);
  if (const int64_t bytes = kernels::decode_shared_bytes(std::max(p.head_dim, p.value_dim));
      request.block_bytes != 0 && bytes > request.block_bytes)
    return fmt::format("a block takes {} bytes of shared memory (the device has {})", bytes, request.block_bytes);
  if (p.sequences > kMostSequences) return fmt::format("{} sequences (serves up to {})", p.sequences, kMostSequences);
  for (int64_t b = 0; b < p.sequences; ++b) {
    if (p.rows(b) * p.group() > kMostProduct)
      return fmt::format("sequence {} has {} query rows of {} heads on a key head (serves a product up to {})", b, p.rows(b),
                         p.group(), kMostProduct);
    if (const int64_t tiles = p.kv_heads * ((p.rows(b) * p.group() + 15) / 16); tiles > kernels::kMostHeads)
      return fmt::format("sequence {} has {} tiles of rows (serves up to {})", b, tiles, kernels::kMostHeads);
  }
  return {};
}

/// Whether a sequence has both keys and rows that may see none of them.
bool may_have_dead_rows(const AttentionProblem& p) {
  for (int64_t b = 0; b < p.sequences; ++b) {
    if (p.rows(b) > p.keys(b) && p.keys(b) > 0) return true;
  }
  return false;
}

/// Why the Hopper kernels with operands in pairs refuse: float32 as two parts of float16, and values with their tangents.
std::string pairs_why_not(const AttentionRequest& request) {
  const AttentionProblem& p = request.problem;
  const bool first_order = request.pass == AttentionPass::forward || request.pass == AttentionPass::backward;
  if (!p.known() && !first_order) return "the lengths are known on the device alone (serves lengths that the host knows)";
  if (std::string reason = sizes_why_not(p); !reason.empty()) return reason;
  const bool of_keys = request.pass == AttentionPass::backward || request.pass == AttentionPass::second;
  if (std::string reason = tiles_why_not(p, kernels::kTileRowsOfPairs, of_keys); !reason.empty()) return reason;
  if (std::string reason = features_why_not(request); !reason.empty()) return reason;
  if (request.sinks && request.pass != AttentionPass::forward) return "sinks are given (serves none)";
  if (p.k_lengths != nullptr && (request.pass == AttentionPass::backward || request.pass == AttentionPass::second))
    return "there are spare rows behind the keys (serves none)";
  if (first_order) {
    constexpr int64_t kWidest = 128;
    if (p.head_dim >= 1 && p.value_dim >= 1 && std::max(p.head_dim, p.value_dim) <= kWidest) return {};
    return fmt::format("head dims are {}/{} (serves 1 to {})", p.head_dim, p.value_dim, kWidest);
  }
  if (request.pass == AttentionPass::second && may_have_dead_rows(p))
    return "a sequence has more rows than keys (serves as many keys, or none)";
  for (const int64_t dim : {64, 128}) {
    if (kernels::compiled_dims_serve(dim, dim, p.head_dim, p.value_dim)) return {};
  }
  return fmt::format("head dims are {}/{} (serves multiples of 8 up to 64/64, 128/128 with as many panels)", p.head_dim,
                     p.value_dim);
}

std::string hopper_refuses(const AttentionRequest& request) {
  const AttentionProblem& p = request.problem;
  if (std::string reason = capability_why_not(request, 9, false); !reason.empty()) return reason;
  switch (request.pass) {
    case AttentionPass::forward:
    case AttentionPass::backward:
      if (p.dtype == DType::float32) return pairs_why_not(request);
      if (p.dtype == DType::bfloat16 || p.dtype == DType::float16) break;
      return fmt::format("dtype is {} (serves bfloat16, float16, float32)", name(p.dtype));
    case AttentionPass::jvp:
    case AttentionPass::second:
      if (p.dtype == DType::bfloat16) return pairs_why_not(request);
      return fmt::format("dtype is {} (serves forward mode and second order of bfloat16)", name(p.dtype));
    case AttentionPass::mixed:
      return "forward over forward is asked for (serves every other pass)";
  }
  if (std::string reason = refused_by_both(request); !reason.empty()) return reason;
  if (std::string reason = tiles_why_not(p, kernels::kLeastTileRows, request.pass == AttentionPass::backward); !reason.empty())
    return reason;
  if (const std::string reason = features_why_not(request); !reason.empty()) {
    if (std::string refused = hopper_features_why_not(request); !refused.empty()) return refused;
    for (const int64_t dim : {64, 128}) {
      if (kernels::compiled_dims_serve(dim, dim, p.head_dim, p.value_dim)) return walks_why_not(request, dim);
    }
    return fmt::format("{}, and head dims are {}/{} (serves it at multiples of 8 up to 64/64, 128/128 with as many panels)",
                       reason, p.head_dim, p.value_dim);
  }
  std::string list;
  for (const auto& [head_dim, value_dim] : hopper_head_dims()) {
    if (kernels::compiled_dims_serve(head_dim, value_dim, p.head_dim, p.value_dim)) return {};
    list += fmt::format("{}{}/{}", list.empty() ? "" : ", ", head_dim, value_dim);
  }
  return fmt::format("head dims are {}/{} (serves multiples of 8 up to {} with as many panels of 64 columns)", p.head_dim,
                     p.value_dim, list);
}

std::string portable_refuses(const AttentionRequest& request) {
  if (std::string reason = capability_why_not(request, 8, true); !reason.empty()) return reason;
  if (std::string reason = refused_by_both(request); !reason.empty()) return reason;
  if (std::string reason = dropout_why_not(request.problem.dropout); !reason.empty()) return reason;
  for (const int64_t dim : {request.problem.head_dim, request.problem.value_dim}) {
    if (dim < 8 || dim % 8 != 0 || dim > 256) return fmt::format("a head dim is {} (serves multiples of 8 up to 256)", dim);
  }
  return {};
}

/// The general kernels serve what the CPU's do.
std::string general_refuses(const AttentionRequest& request) {
  const AttentionProblem& p = request.problem;
  constexpr int64_t kLongest = int64_t{1} << 30;
  if (!is_floating(p.dtype)) return fmt::format("dtype is {} (serves float64, float32, bfloat16, float16)", name(p.dtype));
  if (p.head_dim < 1 || p.value_dim < 1)
    return fmt::format("head dims are {} and {} (serves 1 and more)", p.head_dim, p.value_dim);
  if (p.kv_heads < 1 || p.heads < 1 || p.heads % p.kv_heads != 0)
    return fmt::format("{} heads on {} key heads (serves a multiple of the key heads)", p.heads, p.kv_heads);
  for (int64_t b = 0; b < p.sequences; ++b) {
    if (p.rows(b) > kLongest || p.keys(b) > kLongest)
      return fmt::format("sequence {} has {} rows and {} keys (serves up to {})", b, p.rows(b), p.keys(b), kLongest);
  }
  return {};
}

}  // namespace

std::span<const std::pair<int64_t, int64_t>> hopper_head_dims() {
  static constexpr std::pair<int64_t, int64_t> kDims[] = {{64, 64}, {128, 128}, {192, 128}, {192, 192}, {256, 256}};
  return kDims;
}

std::span<const AttentionCandidate> cuda_attention_candidates() {
  static constexpr AttentionCandidate kCandidates[] = {
      {AttentionKernel::decode, "decode", "cuda", false, decode_refuses},
      {AttentionKernel::hopper, "hopper", "cuda", false, hopper_refuses},
      {AttentionKernel::portable, "portable", "cuda", false, portable_refuses},
      {AttentionKernel::general, "general", "cuda", false, general_refuses},
  };
  return kCandidates;
}

}  // namespace deckle
