#pragma once

#include "deckle/nested/nested_tensor.h"

/// Structural ops with an argument per component. Those with one argument for all are overloads of the
/// dense ops, in generated/.
namespace deckle {

/// Position index[b] (counted from the end if negative) of each component along a ragged dim; index is [B].
NestedTensor select(const NestedTensor& self, IntArg dim, const Tensor& index);

/// Positions starts[b] up to ends[b] of each component along a ragged dim, bounds as in Python; both are [B].
NestedTensor slice(const NestedTensor& self, IntArg dim, const Tensor& starts, const Tensor& ends, IntArg step = 1);

/// lengths[b] positions from starts[b] on of each component along a ragged dim; both are [B].
NestedTensor narrow(const NestedTensor& self, IntArg dim, const Tensor& starts, const Tensor& lengths);

/// Each component rolled along a ragged dim by its own shifts[b].
NestedTensor roll(const NestedTensor& self, const Tensor& shifts, IntArg dim = 1);

/// Each component shifted by `offset` positions along a ragged dim; positions shifted in are filled with `value`.
NestedTensor shift(const NestedTensor& self, IntArg offset, IntArg dim = 1, const Scalar& value = 0);
NestedTensor shift(const NestedTensor& self, const Tensor& offsets, IntArg dim = 1, const Scalar& value = 0);

/// allclose and equal of all values; of other ragged shapes, neither.
bool allclose(const NestedTensor& self, const NestedTensor& other, FloatArg rtol = 1e-5, FloatArg atol = 1e-8,
              BoolArg equal_nan = false);
bool equal(const NestedTensor& self, const NestedTensor& other);

}  // namespace deckle
