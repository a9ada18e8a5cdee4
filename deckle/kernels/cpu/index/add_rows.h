#pragma once

#include "deckle/kernels/cpu/index/rows.h"

namespace deckle::kernels::cpu::indexing {

/// result[outer, r, inner] = base[outer, r, inner] + the sum over i with index[i] = r of source[outer, i, inner]. `shape` is the
/// result's; a base that is not defined counts as 0. Floating sums are taken in float64, integer sums in int64. With
/// `skip_missing` an index of -1 adds nowhere.
void add_rows(const View& base, const RowShape& shape, const View& index, const View& source, const View& result,
              bool skip_missing = false);

}  // namespace deckle::kernels::cpu::indexing
