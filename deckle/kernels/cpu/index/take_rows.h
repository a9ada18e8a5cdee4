#pragma once

#include "deckle/kernels/cpu/index/rows.h"

namespace deckle::kernels::cpu::indexing {

/// result[outer, i, inner] = source[outer, index[i], inner], any dtype; `shape` is the source's.
void take_rows(const View& source, const RowShape& shape, const View& index, const View& result);

}  // namespace deckle::kernels::cpu::indexing
