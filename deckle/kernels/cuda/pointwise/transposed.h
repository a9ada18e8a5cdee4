#pragma once

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cuda::pointwise {

/// Copies by tiles through shared memory where the source's contiguous dim is another than the target's, of one dtype; false:
/// some other kind of copy, and nothing was done.
bool copy_transposed(const Context& context, const View& source, const View& target);

}  // namespace deckle::kernels::cuda::pointwise
