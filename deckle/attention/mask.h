#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "deckle/core/tensor.h"
#include "deckle/kernels/args/attention.h"
#include "deckle/nested/nested_tensor.h"

namespace deckle {

using Alignment = AttentionAlignment;

/// Which keys a query may see: one of `masks` below, or several joined by `&&`, `||` and `!` (also written and, or, not).
/// Immutable (tensors given are copied to the host, which waits for a GPU's), cheap to copy. A plan compiles it to ranges of keys
/// per query; tiles of scores that no query sees are never computed.
class AttentionMask {
 public:
  struct Node;

  AttentionMask();  // every key
  explicit AttentionMask(std::shared_ptr<const Node> node) : node_(std::move(node)) {}
  const Node& node() const { return *node_; }

  friend AttentionMask operator&&(const AttentionMask& a, const AttentionMask& b);
  friend AttentionMask operator||(const AttentionMask& a, const AttentionMask& b);
  friend AttentionMask operator!(const AttentionMask& a);

 private:
  std::shared_ptr<const Node> node_;
};

namespace masks {

/// Every key.
AttentionMask full();

/// Keys up to the query's own position. With M queries and N keys, query i stands at key position i (top_left) or i + N - M
/// (bottom_right: the last query sees the last key). The two are different types: for M != N they are different masks.
template <Alignment kAlignment>
class Causal : public AttentionMask {
 public:
  Causal();
};
template <Alignment kAlignment = Alignment::bottom_right>
Causal<kAlignment> causal() {
  return {};
}

/// Keys from `left` before to `right` after the query's position; a negative number sets no limit on its side. Also without
/// limits it says, as every mask with an alignment does, from where slopes and tables count the distance.
template <Alignment kAlignment>
class Window : public AttentionMask {
 public:
  Window(int64_t left, int64_t right);
};
template <Alignment kAlignment = Alignment::bottom_right>
Window<kAlignment> window(int64_t left, int64_t right) {
  return {left, right};
}

/// The first `keys` keys of every sequence, whatever the query; or a number for each sequence.
AttentionMask prefix(int64_t keys);
AttentionMask prefix(std::span<const int64_t> keys);

/// Prefix-LM: prefix(keys) || causal().
AttentionMask prefix_lm(int64_t keys);
AttentionMask prefix_lm(std::span<const int64_t> keys);

/// Keys of the query's own document, for sequences that hold several: int64 ids [B, M] of the queries and [B, N] of the keys (one
/// argument serves both), on any device, dense or ragged as q and k are, or, beside key_lengths, of the keys alone. Equal ids are
/// one document, wherever they stand.
AttentionMask documents(const Tensor& ids);
AttentionMask documents(const Tensor& q_ids, const Tensor& k_ids);
AttentionMask documents(const NestedTensor& ids);
AttentionMask documents(const NestedTensor& q_ids, const NestedTensor& k_ids);

/// Keys where the bool tensor [B, H, M, N], on any device, is true; any dim may be 1. In a ragged batch M and N reach as far as
/// the longest sequence.
AttentionMask boolean(const Tensor& allowed);

}  // namespace masks

}  // namespace deckle
