#pragma once

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/number.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cuda {

/// Of any dtypes and strides, as their namesakes on a CPU.
void copy(const Context&, const View& source, const View& target);
void fill(const Context&, const Number& value, const View& target);

}  // namespace deckle::kernels::cuda
