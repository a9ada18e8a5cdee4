// Views below autograd: other sizes, strides and offsets on the same storage.

#include <utility>

#include "deckle/base/check.h"
#include "deckle/base/range.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/strides.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/shape_tools.h"

namespace deckle::native {
namespace {

/// Index along dim in [0, size).
int64_t wrap_index(int64_t index, int64_t dim, IntSpan sizes) {
  const int64_t size = sizes[static_cast<size_t>(dim)];
  check(index >= -size && index < size, Argument{"index"}, "{} is out of range for dim {} of shape {} (expected {})", index, dim,
        sizes, Range{-size, size - 1});
  return index < 0 ? index + size : index;
}

}  // namespace

Tensor view(const Tensor& self, IntSpan sizes) {
  const Dims wanted = resolved_sizes(self, sizes);
  const std::optional<Dims> strides = view_strides(self, wanted);
  check(strides.has_value(),
        "a tensor of shape {} and strides {} cannot be viewed as {} without a copy (expected strides that fit; reshape copies)",
        self.sizes(), self.strides(), wanted);
  return alias(self, wanted, *strides, self.offset());
}

Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1) {
  Dims sizes(self.sizes()), strides(self.strides());
  dim0 = wrap_dim(dim0, sizes);
  dim1 = wrap_dim(dim1, sizes);
  if (sizes.empty()) return alias(self, sizes, strides, self.offset());
  std::swap(sizes[static_cast<size_t>(dim0)], sizes[static_cast<size_t>(dim1)]);
  std::swap(strides[static_cast<size_t>(dim0)], strides[static_cast<size_t>(dim1)]);
  return alias(self, sizes, strides, self.offset());
}

Tensor permute(const Tensor& self, IntSpan dims) {
  check(static_cast<int64_t>(dims.size()) == self.dim(), "{} dims for shape {} (expected {})", dims.size(), self.sizes(),
        self.dim());
  Dims sizes, strides;
  std::vector<bool> seen(dims.size(), false);
  for (const int64_t dim : dims) {
    const auto at = static_cast<size_t>(wrap_dim(dim, self.sizes()));
    check(!seen[at], "dim {} is given twice in {} (expected different dims)", dim, dims);
    seen[at] = true;
    sizes.push_back(self.sizes()[at]);
    strides.push_back(self.strides()[at]);
  }
  return alias(self, sizes, strides, self.offset());
}

Tensor expand(const Tensor& self, IntSpan sizes) {
  const auto missing = static_cast<int64_t>(sizes.size()) - self.dim();
  check(missing >= 0, "shape {} does not broadcast to {}", self.sizes(), sizes);
  Dims wanted(sizes), strides(sizes.size(), 0);
  for (int64_t dim = 0; dim < static_cast<int64_t>(sizes.size()); ++dim) {
    int64_t& size = wanted[static_cast<size_t>(dim)];
    if (dim < missing) {
      check(size >= 0, "-1 stands for a dim that shape {} does not have, in {} (expected a size)", self.sizes(), sizes);
      continue;
    }
    const int64_t own = self.size(dim - missing);
    if (size == -1) size = own;
    check(size == own || own == 1, "shape {} does not broadcast to {}", self.sizes(), sizes);
    strides[static_cast<size_t>(dim)] = size == own ? self.stride(dim - missing) : 0;
  }
  return alias(self, wanted, strides, self.offset());
}

Tensor select(const Tensor& self, int64_t dim, int64_t index) {
  check(self.dim() > 0, Argument{"self"}, "has no dims (expected one to select from)");
  dim = wrap_dim(dim, self.sizes());
  index = wrap_index(index, dim, self.sizes());
  Dims sizes(self.sizes()), strides(self.strides());
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  return alias(self, sizes, strides, self.offset() + (self.numel() > 0 ? index * self.stride(dim) : 0));
}

Tensor slice(const Tensor& self, int64_t dim, int64_t start, int64_t end, int64_t step) {
  check(self.dim() > 0, Argument{"self"}, "has no dims (expected one to slice)");
  dim = wrap_dim(dim, self.sizes());
  const SliceBounds range = slice_bounds(self.size(dim), start, end, step);
  Dims sizes(self.sizes()), strides(self.strides());
  sizes[static_cast<size_t>(dim)] = range.count;
  const bool any = range.count > 0 && self.numel() > 0;  // of none, or of one element, any stride will do; steps may be huge
  if (any && range.count > 1) strides[static_cast<size_t>(dim)] *= step;
  return alias(self, sizes, strides, self.offset() + (any ? range.start * self.stride(dim) : 0));
}

std::vector<Tensor> split_with_sizes(const Tensor& self, IntSpan split_sizes, int64_t dim) {
  check(self.dim() > 0, Argument{"self"}, "has no dims (expected one to split)");
  std::vector<Tensor> pieces;
  int64_t start = 0;
  for (const int64_t size : split_sizes) {
    check(size >= 0, "a size in {} is negative (expected 0 or more)", split_sizes);
    check(size <= self.size(dim) - start, "sizes {} add up to more than dim {} of shape {} has (expected {})", split_sizes, dim,
          self.sizes(), self.size(dim));
    pieces.push_back(native::slice(self, dim, start, start + size, 1));
    start += size;
  }
  check(start == self.size(dim), "sizes {} add up to {} in dim {} of shape {} (expected {})", split_sizes, start, dim,
        self.sizes(), self.size(dim));
  return pieces;
}

std::vector<Tensor> unbind(const Tensor& self, int64_t dim) {
  check(self.dim() > 0, Argument{"self"}, "has no dims (expected one to unbind)");
  std::vector<Tensor> slices;
  slices.reserve(static_cast<size_t>(self.size(dim)));  // too many end here, before any is made
  for (int64_t index = 0; index < self.size(dim); ++index) slices.push_back(native::select(self, dim, index));
  return slices;
}

Tensor squeeze(const Tensor& self, int64_t dim) {
  Dims sizes(self.sizes()), strides(self.strides());
  dim = wrap_dim(dim, sizes);
  if (!sizes.empty() && self.size(dim) == 1) {
    sizes.erase(sizes.begin() + dim);
    strides.erase(strides.begin() + dim);
  }
  return alias(self, sizes, strides, self.offset());
}

Tensor unsqueeze(const Tensor& self, int64_t dim) {
  Dims sizes(self.sizes()), strides(self.strides());
  check(dim >= -self.dim() - 1 && dim <= self.dim(), Argument{"dim"},
        "{} is out of range for a new dim of shape {} (expected {}..{})", dim, sizes, -self.dim() - 1, self.dim());
  if (dim < 0) dim += self.dim() + 1;
  int64_t stride = 1;
  if (dim < self.dim() && __builtin_mul_overflow(self.size(dim), self.stride(dim), &stride)) stride = 1;  // without elements
  strides.insert(strides.begin() + dim, stride);
  sizes.insert(sizes.begin() + dim, 1);
  return alias(self, sizes, strides, self.offset());
}

Tensor select_backward(const Tensor& gradient, IntSpan sizes, int64_t dim, int64_t index) {
  Tensor result = zeros_raw(sizes, gradient.dtype(), gradient.device());
  copy_into(native::select(result, dim, index), gradient);
  return result;
}

Tensor slice_backward(const Tensor& gradient, IntSpan sizes, int64_t dim, int64_t start, int64_t end, int64_t step) {
  Tensor result = zeros_raw(sizes, gradient.dtype(), gradient.device());
  copy_into(native::slice(result, dim, start, end, step), gradient);
  return result;
}

Tensor as_strided(const Tensor& self, IntSpan sizes, IntSpan strides, int64_t offset) {
  check(self.is_contiguous(), Argument{"self"}, "has shape {} and strides {} (expected it contiguous)", self.sizes(),
        self.strides());
  check(sizes.size() == strides.size(), "{} sizes and {} strides (expected as many)", sizes.size(), strides.size());
  bool within = offset >= 0 && offset < self.numel();
  int64_t left = self.numel() - 1 - (within ? offset : 0);  // elements behind the last of those that are shown
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    check(strides[dim] >= 0, "a stride in {} is negative (expected 0 or more)", strides);
    const int64_t steps = sizes[dim] - 1;
    within = within && (steps <= 0 || strides[dim] <= left / steps);  // so that nothing overflows
    if (within && steps > 0) left -= steps * strides[dim];
  }
  check(numel_of(sizes) == 0 || within,
        "sizes {} with strides {} and offset {} leave the {} elements of self (expected places in it)", sizes, strides, offset,
        self.numel());
  return alias(self, sizes, bounded_strides(strides, self.numel()), self.offset() + (numel_of(sizes) == 0 ? 0 : offset));
}

Tensor as_strided_backward(const Tensor& gradient, IntSpan self_sizes, IntSpan strides, int64_t offset) {
  check(strides.size() == gradient.sizes().size(), "{} strides for a gradient of shape {} (expected one for each dim)",
        strides.size(), gradient.sizes());
  if (distinct_places(gradient.sizes(), strides)) {
    const Tensor result = zeros_raw(self_sizes, gradient.dtype(), gradient.device());
    copy_into(native::as_strided(result, gradient.sizes(), strides, offset), gradient);
    return result;
  }
  const int64_t count = numel_of(self_sizes);
  const OnDevice there(gradient.device());
  const Tensor places =
      copy_as(native::as_strided(native::arange(0, count, 1, {}), gradient.sizes(), strides, offset), DType::int64);
  const Tensor flat =
      raw::index_add(zeros_raw({count}, gradient.dtype(), gradient.device()), 0, native::view(places, {places.numel()}),
                     native::view(native::contiguous(gradient), {gradient.numel()}));
  return native::view(flat, self_sizes);
}

}  // namespace deckle::native
