#pragma once

#include <cstdint>

#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/reduce/layout.h"

namespace deckle::kernels::cpu::reduce {

/// The extreme element of each column and its row, the first of equal ones; a NaN wins. `values` may be null. False, and nothing
/// is done, unless contiguous columns lie beside the one reduced dim, of at least one and not too many rows.
bool arg_extrema_of_columns(const View& self, const Layout& layout, bool largest, const View* values, int64_t* indices);

}  // namespace deckle::kernels::cpu::reduce
