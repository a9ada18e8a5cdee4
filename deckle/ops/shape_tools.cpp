#include "deckle/ops/shape_tools.h"

#include <algorithm>

#include "deckle/base/check.h"

namespace deckle {

Dims resolved_sizes(const Tensor& self, IntSpan sizes) {
  Dims wanted(sizes);
  int64_t* unknown = nullptr;
  for (int64_t& size : wanted) {
    if (size == -1) {
      check(unknown == nullptr, "-1 appears twice in {} (expected once at most)", sizes);
      unknown = &size;
      size = 1;
    } else {
      check(size >= 0, "a size in {} is negative (expected 0 or more, or -1 once)", sizes);
    }
  }
  const int64_t count = self.numel(), known = numel_of(wanted);
  if (unknown != nullptr) {
    check(known != 0, "-1 in {} could stand for any size, for another size is 0 (expected sizes)", sizes);
    *unknown = count / known;
  }
  check(numel_of(wanted) == count, "shape {} has {} elements, {} has not (expected as many)", self.sizes(), count, sizes);
  return wanted;
}

std::optional<Dims> view_strides(const Tensor& self, IntSpan sizes) {
  if (self.numel() == 0 || self.is_contiguous()) return contiguous_strides(sizes);
  Dims strides(sizes.size(), 0);
  // From the last dim on, runs of dims of self that lie evenly in memory must be cut by whole groups of new dims.
  int64_t wanted = static_cast<int64_t>(sizes.size()) - 1;
  int64_t run = 1;    // elements of the current run of self's dims
  int64_t taken = 1;  // elements of the new dims that the run has been given to
  int64_t base = 0;   // stride of the run's last dim
  for (int64_t dim = self.dim() - 1; dim >= 0; --dim) {
    if (run == 1) base = self.stride(dim);
    run *= self.size(dim);
    const bool goes_on = dim > 0 && (self.size(dim - 1) == 1 || self.stride(dim - 1) == run * base);
    if (goes_on) continue;
    while (wanted >= 0 && (taken < run || sizes[static_cast<size_t>(wanted)] == 1)) {
      strides[static_cast<size_t>(wanted)] = taken * base;
      taken *= sizes[static_cast<size_t>(wanted)];
      --wanted;
    }
    if (taken != run) return std::nullopt;
    run = taken = 1;
  }
  return wanted < 0 ? std::optional(strides) : std::nullopt;
}

SliceBounds slice_bounds(int64_t size, int64_t start, int64_t end, int64_t step) {
  check(step > 0, Argument{"step"}, "is {} (expected 1 or more)", step);
  start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
  end = std::clamp<int64_t>(end < 0 ? end + size : end, start, size);
  return {start, end, start < end ? (end - start - 1) / step + 1 : 0};
}

}  // namespace deckle
