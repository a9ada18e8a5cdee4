// Diagonals, repeated and padded tensors.

#include <algorithm>
#include <numeric>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/arrange.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/padding.h"

namespace deckle {

Tensor native::diagonal(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  check(self.dim() >= 2, Argument{"self"}, "has shape {} (expected 2 dims or more)", self.sizes());
  dim1 = wrap_dim(dim1, self.sizes());
  dim2 = wrap_dim(dim2, self.sizes());
  check(dim1 != dim2, "dim1 and dim2 are both {} (expected different dims)", dim1);
  const int64_t down = std::max<int64_t>(0, offset < 0 ? -std::max(offset, -self.size(dim1)) : 0),
                right = std::max<int64_t>(0, std::min(offset, self.size(dim2)));
  const int64_t length = std::min(self.size(dim1) - down, self.size(dim2) - right);
  Dims sizes, strides;
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    if (dim == dim1 || dim == dim2) continue;
    sizes.push_back(self.size(dim));
    strides.push_back(self.stride(dim));
  }
  sizes.push_back(length);
  strides.push_back(self.numel() == 0 ? 1 : self.stride(dim1) + self.stride(dim2));
  const int64_t first = length == 0 || self.numel() == 0 ? 0 : down * self.stride(dim1) + right * self.stride(dim2);
  return alias(self, sizes, strides, self.offset() + first);
}

Tensor native::diagonal_backward(const Tensor& gradient, IntSpan sizes, int64_t offset, int64_t dim1, int64_t dim2) {
  const Tensor result = zeros_raw(sizes, gradient.dtype(), gradient.device());
  copy_into(native::diagonal(result, offset, dim1, dim2), gradient);
  return result;
}

Tensor native::flip(const Tensor& self, IntSpan dims) {
  if (self.device().is_cpu()) {  // a copy that reads backwards, into the order of dims that self has in memory
    Tensor result = native::is_permuted(self) ? native::empty_permuted(self, self.dtype())
                                              : empty_raw(self.sizes(), self.dtype(), self.device());
    native::copy_reversed(result, self, dims);
    return result;
  }
  const OnDevice there(self.device());
  if (dims.empty() || self.dim() == 0) return native::clone(self);
  Tensor result = self;
  for (const int64_t dim : dims) {
    const int64_t size = self.size(dim);
    result = raw::index_select(result, dim, arange(size - 1, -1, -1));
  }
  return result;
}

Tensor native::roll(const Tensor& self, int64_t shift, int64_t dim) {
  check(self.dim() > 0, Argument{"self"}, "has no dims (expected one to roll along)");
  const int64_t n = self.size(dim), start = n == 0 ? 0 : (n - shift % n) % n;
  const Tensor result = empty(self.sizes(), self.dtype(), self.device());
  copy_into(native::slice(result, dim, 0, n - start, 1), native::slice(self, dim, start, n, 1));
  copy_into(native::slice(result, dim, n - start, n, 1), native::slice(self, dim, 0, start, 1));
  return result;
}

Tensor composite::repeat_interleave(const Tensor& self, const Tensor& repeats, std::optional<int64_t> dim) {
  check(repeats.dtype() == DType::int64 || repeats.dtype() == DType::int32, Argument{"repeats"},
        "is {} (expected int64 or int32)", name(repeats.dtype()));
  const Tensor x = dim ? self : reshape(self, {self.numel()});
  check(x.dim() > 0, Argument{"self"}, "has no dims (expected one to repeat along)");
  const int64_t along = wrap_dim(dim.value_or(0), x.sizes()), count = x.size(along);
  check(repeats.dim() <= 1 && (repeats.numel() == 1 || repeats.numel() == count), Argument{"repeats"},
        "has shape {} for {} slices (expected one number, or one for each)", repeats.sizes(), count);
  const std::vector<int64_t> times = repeats.to_vector<int64_t>();
  check(std::all_of(times.begin(), times.end(), [](int64_t n) { return n >= 0; }), Argument{"repeats"},
        "has a negative number (expected 0 or more)");
  const auto of_slice = [&](int64_t i) { return times[times.size() == 1 ? 0 : static_cast<size_t>(i)]; };
  int64_t total = 0;
  for (int64_t i = 0; i < count; ++i)
    check(!__builtin_add_overflow(total, of_slice(i), &total), Argument{"repeats"},
          "adds up to more than 64 bits hold (expected fewer than 2^63)");
  const Tensor index = empty_raw({total}, DType::int64, Device());
  int64_t* to = index.data<int64_t>();
  for (int64_t i = 0; i < count; ++i) to = std::fill_n(to, of_slice(i), i);
  return index_select(x, along, index.to(factory_device()));
}

namespace {

/// Throws unless a dim of `size` can be padded by as many.
void require_padding_of(int64_t size, int64_t before, int64_t after) {
  constexpr int64_t kMost = int64_t{1} << 61;
  check(std::max(before, after) <= kMost, "padding of {} and {} (expected at most 2^61)", before, after);
  check(std::min(before, after) >= -kMost && before + after >= -size,
        "padding of {} and {} for {} elements (expected no more taken away than there are)", before, after, size);
}

}  // namespace

std::vector<int64_t> padded_places(int64_t size, int64_t before, int64_t after, PadMode mode) {
  require_padding_of(size, before, after);
  const int64_t most = std::max(before, after);
  check(mode != PadMode::reflect || most < std::max<int64_t>(size, 1),
        "padding of {} and {} by reflect for {} elements "
        "(expected fewer than there are)",
        before, after, size);
  check(mode != PadMode::circular || most <= size,
        "padding of {} and {} by circular for {} elements (expected no more than there "
        "are)",
        before, after, size);
  check(mode != PadMode::replicate || most <= 0 || size > 0,
        "padding of {} and {} by replicate for no elements (expected one or "
        "more)",
        before, after);
  std::vector<int64_t> places;
  places.reserve(static_cast<size_t>(size + before + after));  // too many end here
  for (int64_t place = -before; place < size + after; ++place) {
    if (place >= 0 && place < size) {
      places.push_back(place);
    } else if (mode == PadMode::constant) {
      places.push_back(-1);
    } else if (mode == PadMode::replicate) {
      places.push_back(place < 0 ? 0 : size - 1);
    } else if (mode == PadMode::circular) {
      places.push_back(place < 0 ? place + size : place - size);
    } else {
      places.push_back(place < 0 ? -place : 2 * (size - 1) - place);
    }
  }
  return places;
}

void require_padding(IntSpan padding, int64_t rank) {
  check(padding.size() % 2 == 0 && static_cast<int64_t>(padding.size()) <= 2 * rank,
        "padding {} for {} dims (expected two numbers for each of some last dims)", padding, rank);
}

Tensor composite::pad(const Tensor& self, IntSpan padding, PadMode mode, const Scalar& value) {
  require_padding(padding, self.dim());
  Tensor result = self;
  for (size_t i = 0; i < padding.size(); i += 2) {
    const int64_t dim = self.dim() - 1 - static_cast<int64_t>(i / 2), before = padding[i], after = padding[i + 1];
    if (before == 0 && after == 0) continue;
    if (mode != PadMode::constant) {
      result = index_select(result, dim, tensor(padded_places(self.size(dim), before, after, mode)));
      continue;
    }
    // Places -before to size + after: those that there are, and on either side what is beside them.
    const int64_t size = self.size(dim);
    require_padding_of(size, before, after);
    const int64_t first = -before, end = size + after;
    const auto beside = [&](int64_t count) {
      Dims sizes(result.sizes());
      sizes[static_cast<size_t>(dim)] = std::max<int64_t>(count, 0);
      return full(sizes, value, self.dtype());
    };
    const Tensor kept = slice(result, dim, std::clamp<int64_t>(first, 0, size), std::clamp<int64_t>(end, 0, size));
    result = deckle::cat({beside(std::min<int64_t>(end, 0) - first), kept, beside(end - std::max(first, size))}, dim);
  }
  return result;
}

}  // namespace deckle
