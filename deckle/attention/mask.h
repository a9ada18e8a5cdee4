#pragma once

#include <cstdint>

#include "deckle/kernels/args/attention.h"

namespace deckle {

using Alignment = AttentionAlignment;

/// Which keys a query may see. With M queries and N keys, query i stands at key position i + offset, where the offset is 0
/// (top_left) or N - M (bottom_right, the default: the last query sees the last key).
struct AttentionMask {
  bool causal = false;
  int64_t left = -1;   // keys at most this far before the query's position; negative: no limit
  int64_t right = -1;  // keys at most this far after it; negative: no limit
  Alignment alignment = Alignment::bottom_right;
};

namespace masks {

/// Every key.
inline AttentionMask full() { return {}; }

/// Keys up to the query's own position.
inline AttentionMask causal(Alignment alignment = Alignment::bottom_right) { return {.causal = true, .alignment = alignment}; }

/// Keys from `left` before to `right` after the query's position; a negative number sets no limit on its side.
inline AttentionMask window(int64_t left, int64_t right, Alignment alignment = Alignment::bottom_right) {
  return {.left = left, .right = right, .alignment = alignment};
}

}  // namespace masks

}  // namespace deckle
