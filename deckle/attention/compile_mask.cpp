#include "deckle/attention/compile_mask.h"

#include <atomic>
#include <map>
#include <optional>
#include <unordered_map>

#include "deckle/attention/key_spans.h"
#include "deckle/attention/mask_node.h"
#include "deckle/base/check.h"
#include "deckle/core/shown.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

using Node = AttentionMask::Node;

std::atomic<int64_t> mask_count{0};

/// Runs of keys in a row of a boolean mask that become ranges; with more, the mask is read where scores are computed.
constexpr size_t kMostRuns = 4;

/// Which keys a row sees, by the definition of each kind of mask.
class RowEvaluator {
 public:
  RowEvaluator(const Ragged& q_rows, const Ragged& k_rows) : q_rows_(q_rows), k_rows_(k_rows) {}

  void enter(int64_t sequence) {
    sequence_ = sequence;
    rows_ = q_rows_->size(sequence);
    keys_ = k_rows_->size(sequence);
    documents_.clear();
  }
  int64_t rows() const { return rows_; }
  int64_t keys() const { return keys_; }

  KeySpans operator()(const AttentionMask& mask, int64_t row, int64_t head) {
    return std::visit([&](const auto& kind) { return spans(kind, row, head); }, mask.node().is);
  }

 private:
  KeySpans spans(const Node::Full&, int64_t, int64_t) { return clip_span(0, keys_, keys_); }
  KeySpans spans(const Node::Band& band, int64_t row, int64_t) {
    const int64_t position = row + (band.alignment == Alignment::top_left ? 0 : keys_ - rows_);
    return clip_span(band.left < 0 ? 0 : position - band.left, band.right < 0 ? keys_ : position + band.right + 1, keys_);
  }
  KeySpans spans(const Node::Prefix& prefix, int64_t, int64_t) {
    return clip_span(0, prefix.keys[prefix.keys.size() == 1 ? 0 : static_cast<size_t>(sequence_)], keys_);
  }
  KeySpans spans(const Node::Documents& documents, int64_t row, int64_t) {
    auto [at, fresh] = documents_.try_emplace(&documents);
    if (fresh) {
      const int64_t* ids = documents.k_ids.values().data<int64_t>() + documents.k_ids.ragged()->offsets()[sequence_];
      for (int64_t key = 0; key < keys_; ++key) append(at->second[ids[key]], {key, key + 1});
    }
    const int64_t id = documents.q_ids.values().data<int64_t>()[q_rows_->offsets()[sequence_] + row];
    const auto found = at->second.find(id);
    return found == at->second.end() ? KeySpans{} : found->second;
  }
  KeySpans spans(const Node::Boolean& mask, int64_t row, int64_t head) {
    if (keys_ == 0) return {};  // where no sequence has a key, the mask may have no elements
    const Tensor& allowed = mask.allowed;
    const auto step = [&](int dim) { return allowed.size(dim) == 1 ? int64_t{0} : allowed.stride(dim); };
    const bool* at = allowed.data<bool>() + sequence_ * step(0) + head * step(1) + row * step(2);
    if (step(3) == 0) return clip_span(0, *at ? keys_ : 0, keys_);
    return true_spans(at, keys_);
  }
  KeySpans spans(const Node::And& parts, int64_t row, int64_t head) {
    return intersect((*this)(parts.a, row, head), (*this)(parts.b, row, head));
  }
  KeySpans spans(const Node::Or& parts, int64_t row, int64_t head) {
    return unite((*this)(parts.a, row, head), (*this)(parts.b, row, head));
  }
  KeySpans spans(const Node::Not& part, int64_t row, int64_t head) { return complement((*this)(part.a, row, head), keys_); }

  const Ragged &q_rows_, &k_rows_;
  int64_t sequence_ = 0, rows_ = 0, keys_ = 0;
  std::unordered_map<const Node::Documents*, std::map<int64_t, KeySpans>> documents_;  // of this sequence: the keys of each id
};

/// Whether ranges of `spans` spans in each row would take more memory than a byte per key.
bool is_scattered(size_t spans, int64_t keys) {
  return spans > kMostRuns && static_cast<int64_t>(2 * sizeof(int32_t) * spans) > keys;
}

/// Appends the conjuncts of `mask` to `parts`.
void split(const AttentionMask& mask, std::vector<AttentionMask>& parts) {
  if (const auto* both = std::get_if<Node::And>(&mask.node().is)) {
    split(both->a, parts);
    split(both->b, parts);
  } else if (!std::holds_alternative<Node::Full>(mask.node().is)) {
    parts.push_back(mask);
  }
}

/// 0 without a boolean mask; else whether `mask` depends on the head: 1 for no, `heads` for yes.
int64_t boolean_heads(const AttentionMask& mask, int64_t heads) {
  int64_t result = 0;
  visit_mask(mask, [&](const Node& node) {
    if (const auto* leaf = std::get_if<Node::Boolean>(&node.is))
      result = std::max(result, leaf->allowed.size(1) == 1 ? 1 : heads);
  });
  return result;
}

void require_fit(const AttentionMask& mask, const Ragged& q_rows, const Ragged& k_rows, int64_t heads, const Ragged& all_rows) {
  visit_mask(mask, [&](const Node& node) {
    if (const auto* prefix = std::get_if<Node::Prefix>(&node.is)) {
      const auto given = static_cast<int64_t>(prefix->keys.size());
      check(given == 1 || given == q_rows->components(),
            "masks::prefix has {} numbers for {} sequences (expected one, or one each)", given, q_rows->components());
    } else if (const auto* documents = std::get_if<Node::Documents>(&node.is)) {
      check(documents->q_ids.ragged() == q_rows, "masks::documents has ids for {}, q has {}", Shown{documents->q_ids.ragged()},
            Shown{q_rows});
      check(documents->k_ids.ragged() == k_rows || documents->k_ids.ragged() == all_rows,
            "masks::documents has ids for {}, k has {}", Shown{documents->k_ids.ragged()},
            to_string(all_rows.defined() ? all_rows : k_rows));
    } else if (const auto* boolean = std::get_if<Node::Boolean>(&node.is)) {
      require_plane("masks::boolean", boolean->allowed, q_rows, k_rows, heads);
    }
  });
}

int64_t tighter(int64_t a, int64_t b) { return a < 0 ? b : b < 0 ? a : std::min(a, b); }

/// The and of `parts` as one bool plane.
Tensor plane_of(const std::vector<AttentionMask>& parts, RowEvaluator& evaluate, const Ragged& q_rows, const Ragged& k_rows,
                int64_t heads) {
  if (parts.size() == 1) {
    if (const auto* leaf = std::get_if<Node::Boolean>(&parts[0].node().is)) return leaf->allowed;
  }
  const Tensor plane =
      zeros_raw({q_rows->components(), heads, std::max<int64_t>(1, q_rows->max_size()), std::max<int64_t>(1, k_rows->max_size())},
                DType::bool_, {});
  for (int64_t b = 0; b < q_rows->components(); ++b) {
    evaluate.enter(b);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < evaluate.rows(); ++i) {
        KeySpans seen = clip_span(0, evaluate.keys(), evaluate.keys());
        for (const AttentionMask& part : parts) seen = intersect(seen, evaluate(part, i, h));
        bool* row = plane.data<bool>() + b * plane.stride(0) + h * plane.stride(1) + i * plane.stride(2);
        for (const KeySpan& span : seen) std::fill(row + span.begin, row + span.end, true);
      }
    }
  }
  return plane;
}

/// Spans of all rows in the kernels' layout.
void store_ranges(const std::vector<KeySpans>& rows, CompiledMask& result) {
  size_t most = 1;
  for (const KeySpans& spans : rows) most = std::max(most, spans.size());
  result.range_count = static_cast<int>(most);
  result.bounds.assign(rows.size() * most * 2, 0);
  auto* to = result.bounds.data();
  for (const KeySpans& spans : rows) {
    for (size_t n = 0; n < spans.size(); ++n)
      to[2 * n] = static_cast<int32_t>(spans[n].begin), to[2 * n + 1] = static_cast<int32_t>(spans[n].end);
    to += 2 * most;
  }
}

}  // namespace

int64_t compiled_masks() { return mask_count.load(std::memory_order_relaxed); }

CompiledMask compile_mask(const AttentionMask& mask, const Ragged& q_rows, const Ragged& k_rows, int64_t heads,
                          const Ragged& all_rows) {
  mask_count.fetch_add(1, std::memory_order_relaxed);
  require_fit(mask, q_rows, k_rows, heads, all_rows);
  CompiledMask result;
  std::optional<Alignment> alignment;
  visit_mask(mask, [&](const Node& node) {
    const auto* band = std::get_if<Node::Band>(&node.is);
    if (band == nullptr) return;
    result.mixed_alignments |= alignment && *alignment != band->alignment;
    if (!alignment) alignment = band->alignment;
  });
  result.alignment = alignment.value_or(Alignment::bottom_right);

  std::vector<AttentionMask> parts, formulas, booleans;
  split(mask, parts);
  int64_t mask_heads = 1;
  for (const AttentionMask& part : parts) {
    const auto* band = std::get_if<Node::Band>(&part.node().is);
    const int64_t part_heads = boolean_heads(part, heads);
    if (band != nullptr && (band->alignment == result.alignment || (band->left < 0 && band->right < 0))) {
      result.left = tighter(result.left, band->left);
      result.right = tighter(result.right, band->right);
    } else {
      (part_heads > 0 ? booleans : formulas).push_back(part);
      mask_heads = std::max(mask_heads, part_heads);
    }
  }
  if (result.right == 0) result.causal = true, result.right = -1;
  if (formulas.empty() && booleans.empty()) return result;

  RowEvaluator evaluate(q_rows, k_rows);
  std::vector<KeySpans> rows;
  rows.reserve(static_cast<size_t>(q_rows->rows()));
  bool everything = true, exact = true, ranges_fit = true;
  for (int64_t b = 0; b < q_rows->components(); ++b) {
    evaluate.enter(b);
    const KeySpans all = clip_span(0, evaluate.keys(), evaluate.keys());
    for (int64_t i = 0; i < evaluate.rows(); ++i) {
      KeySpans seen = booleans.empty() ? all : KeySpans{};
      for (int64_t h = 0; h < mask_heads && !booleans.empty(); ++h) {
        KeySpans by_head = all;
        for (const AttentionMask& part : booleans) by_head = intersect(by_head, evaluate(part, i, h));
        exact &= h == 0 || by_head == seen;
        seen = unite(seen, by_head);
      }
      exact &= seen.size() <= kMostRuns;
      seen = cover(seen, kMostRuns);
      for (const AttentionMask& part : formulas) seen = intersect(seen, evaluate(part, i, 0));
      if (is_scattered(seen.size(), k_rows->max_size())) {
        ranges_fit = false;
        seen = cover(seen, kMostRuns);
      }
      everything &= seen == all;
      rows.push_back(std::move(seen));
    }
  }
  if (!ranges_fit) {
    for (KeySpans& seen : rows) seen = cover(seen, kMostRuns);
    booleans.insert(booleans.end(), formulas.begin(), formulas.end());
  }
  if (!exact || !ranges_fit) result.plane = plane_of(booleans, evaluate, q_rows, k_rows, mask_heads);
  if (!everything) store_ranges(rows, result);
  return result;
}

void require_plane(const char* argument, const Tensor& plane, const Ragged& q_rows, const Ragged& k_rows, int64_t heads) {
  check(plane.dim() == 4, "{} has shape {} (expected 4 dims: batch, heads, rows, keys; 1 where it is broadcast)", argument,
        plane.sizes());
  const int64_t full[4] = {q_rows->components(), heads, q_rows->max_size(), k_rows->max_size()};
  for (int dim = 0; dim < 4; ++dim) {
    const int64_t size = plane.size(dim);
    const bool covers = dim < 2 ? size == full[dim] : size >= full[dim];
    check(size == 1 || covers, "{} has shape {}; dim {} must be 1 or {} {}", argument, plane.sizes(), dim,
          dim < 2 ? "exactly" : "at least", full[dim]);
  }
}

}  // namespace deckle
