#pragma once

#include <cstdint>

#include "deckle/base/check.h"
#include "deckle/base/range.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/index/row_shape.h"
#include "deckle/kernels/cpu/simd/within.h"

namespace deckle::kernels::cpu::indexing {

/// Elements per range of parallel_for for work that moves `bytes` per index: ranges of about 64 KiB.
inline int64_t grain_of(int64_t bytes) { return 1 + (int64_t{64} << 10) / (bytes + 1); }
/// Where it does nothing else: less than twice as much is moved sooner than another processor's cache hands it over.
inline int64_t grain_of_moves(int64_t bytes) { return grain_of(bytes / 2); }

inline void check_index(int64_t index, int64_t size) {
  if (index < 0 || index >= size) [[unlikely]]
    fail("index {} is out of range (expected {})", index, Range{0, size - 1});
}

/// Checks a run of indices without a branch for each, but for a few.
template <typename Index>
void check_run(const Index* indices, int64_t count, int64_t size) {
  constexpr int64_t kFew = 8;
  if (count >= kFew && simd::all_within(indices, count, size)) [[likely]]
    return;
  for (int64_t i = 0; i < count; ++i) check_index(static_cast<int64_t>(indices[i]), size);
}

/// Calls `f` with a pointer type of the integer dtype of an index view: int64 or int32.
template <typename F>
decltype(auto) visit_index(const View& index, F&& f) {
  if (index.dtype == DType::int64) return f(index.ptr<const int64_t>());
  if (index.dtype == DType::int32) return f(index.ptr<const int32_t>());
  fail("indices are {} (expected int64 or int32)", name(index.dtype));
}

/// Checks all of an index; -1 may stand for none.
inline void check_indices(const View& index, int64_t rows, bool skip_missing = false) {
  visit_index(index, [&](const auto* indices) {
    if (!skip_missing) return check_run(indices, index.numel(), rows);
    for (int64_t i = 0, count = index.numel(); i < count; ++i) {
      if (indices[i] != -1) check_index(static_cast<int64_t>(indices[i]), rows);
    }
  });
}

/// Whether an index counts down, and within its range: flip.
inline bool counts_down(const View& index, int64_t rows) {
  return visit_index(index, [&](const auto* indices) {
    const int64_t count = index.numel();
    int64_t i = 0;
    while (i < count && static_cast<int64_t>(indices[i]) == static_cast<int64_t>(indices[0]) - i) ++i;
    return i == count && count > 0 && static_cast<int64_t>(indices[0]) < rows && static_cast<int64_t>(indices[count - 1]) >= 0;
  });
}

}  // namespace deckle::kernels::cpu::indexing
