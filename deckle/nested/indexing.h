#pragma once

#include "deckle/nested/nested_tensor.h"

/// Rows of components by ragged indices: each index is a position in its own component. All along the one ragged dim.
namespace deckle {

/// Row index[b, k] of component b; index is [B, K..] (ragged K, int64 or int32), the result [B, K.., regular dims].
NestedTensor index_select(const NestedTensor& self, const NestedTensor& index);

/// self with row (b, k) of source added at row index[b, k] of component b.
NestedTensor index_add(const NestedTensor& self, const NestedTensor& index, const NestedTensor& source);

}  // namespace deckle
