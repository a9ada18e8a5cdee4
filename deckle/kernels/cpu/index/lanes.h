#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu::indexing {

/// The one-dimensional pieces of views along `dim`, for views that agree in all other dims or are larger there: lane n is
/// the n-th, in row-major order, of the sizes of `shape` without `dim`.
template <size_t kViews>
class Lanes {
 public:
  Lanes(const View& shape, int64_t dim, const std::array<const View*, kViews>& views) {
    for (int i = 0; i < shape.ndim; ++i) {
      if (i == dim) continue;
      sizes_[ndim_] = shape.sizes[i];
      count_ *= shape.sizes[i];
      for (size_t v = 0; v < kViews; ++v) strides_[v][ndim_] = views[v]->strides[i];
      ++ndim_;
    }
    for (size_t v = 0; v < kViews; ++v) along_[v] = shape.ndim == 0 ? 0 : views[v]->strides[dim];
  }

  int64_t count() const { return count_; }
  /// The length of runs of adjacent lanes: within a run, lane n + 1 starts one element after lane n in every view.
  int64_t side_by_side() const {
    if (ndim_ == 0) return 1;
    const bool adjacent = std::ranges::all_of(strides_, [&](const auto& strides) { return strides[ndim_ - 1] == 1; });
    return adjacent ? std::max<int64_t>(1, sizes_[ndim_ - 1]) : 1;
  }
  /// Stride of view v along the lane.
  int64_t along(size_t v) const { return along_[v]; }
  /// Where a lane starts in each view.
  std::array<int64_t, kViews> offsets(int64_t lane) const {
    std::array<int64_t, kViews> result{};
    for (int i = ndim_ - 1; i >= 0; --i) {
      const int64_t position = lane % sizes_[i];
      lane /= sizes_[i];
      for (size_t v = 0; v < kViews; ++v) result[v] += position * strides_[v][i];
    }
    return result;
  }

 private:
  int ndim_ = 0;
  int64_t count_ = 1;
  int64_t sizes_[kMaxDims] = {};
  std::array<std::array<int64_t, kMaxDims>, kViews> strides_{};
  std::array<int64_t, kViews> along_{};
};

}  // namespace deckle::kernels::cpu::indexing
