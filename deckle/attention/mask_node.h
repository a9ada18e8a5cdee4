#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "deckle/attention/mask.h"

namespace deckle {

/// What an AttentionMask is made of.
struct AttentionMask::Node {
  struct Full {};
  /// Keys from `left` before to `right` after the query's position; negative: no limit.
  struct Band {
    Alignment alignment;
    int64_t left, right;
  };
  struct Prefix {
    std::vector<int64_t> keys;  // one, or one per sequence
  };
  struct Documents {
    NestedTensor q_ids, k_ids;
  };
  struct Boolean {
    Tensor allowed;
  };
  struct And {
    AttentionMask a, b;
  };
  struct Or {
    AttentionMask a, b;
  };
  struct Not {
    AttentionMask a;
  };

  std::variant<Full, Band, Prefix, Documents, Boolean, And, Or, Not> is;
};

/// Calls `f` on the node of `mask` and of every mask inside it.
template <typename F>
void visit_mask(const AttentionMask& mask, const F& f) {
  using Node = AttentionMask::Node;
  f(mask.node());
  if (const auto* both = std::get_if<Node::And>(&mask.node().is)) visit_mask(both->a, f), visit_mask(both->b, f);
  if (const auto* either = std::get_if<Node::Or>(&mask.node().is)) visit_mask(either->a, f), visit_mask(either->b, f);
  if (const auto* inverse = std::get_if<Node::Not>(&mask.node().is)) visit_mask(inverse->a, f);
}

}  // namespace deckle
