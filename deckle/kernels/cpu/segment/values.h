#pragma once

#include <functional>

#include "deckle/kernels/cpu/reduce/values.h"

namespace deckle::kernels::cpu::segment {

/// The parameter of a reduction's `finish` for a component of so many rows.
using Parameter = std::function<double(int64_t rows)>;

/// reduce::fold of the rows of each component: `result` is [components, inner].
template <typename A>
void fold(const reduce::Folds<A>& folds, const View& values, const RaggedView& ragged, const Parameter& parameter,
          const View& result);
template <typename A>
void fold(const reduce::RealFolds<A>& folds, const View& values, const RaggedView& ragged, const Parameter& parameter,
          const View& result);

/// results[c] = the fold of column first + c over rows [begin, end), c below `columns`; rows are of `inner` elements.
template <typename T, typename A>
void fold_rows(const reduce::Fold<T, A>& op, const View& values, const RaggedView& ragged, int64_t inner, int64_t begin,
               int64_t end, int64_t first, int64_t columns, A* results);

}  // namespace deckle::kernels::cpu::segment
