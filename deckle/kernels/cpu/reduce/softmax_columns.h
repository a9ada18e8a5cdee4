#pragma once

#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu::reduce {

/// Along a dim beside which another is contiguous, column by column; or false: the operands do not lie so.
bool softmax_columns(const View& self, int64_t dim, bool logarithm, const View& result);
bool softmax_columns_backward(const View& grad, const View& output, int64_t dim, bool logarithm, const View& self_grad);

}  // namespace deckle::kernels::cpu::reduce
