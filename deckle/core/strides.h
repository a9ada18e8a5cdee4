#pragma once

#include "deckle/core/dims.h"

namespace deckle {

/// The strides, none of them beyond `most`, the elements of a storage: those of dims of one element, which nobody follows, may be
/// any numbers, and multiples and sums of such would overflow in views.
Dims bounded_strides(IntSpan strides, int64_t most);

/// Whether an element of a tensor with distinct places lies where one of the same tensor `distance` elements further on does.
bool meets_itself(IntSpan sizes, IntSpan strides, int64_t distance);

}  // namespace deckle
