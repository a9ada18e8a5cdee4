#include "deckle/core/dims.h"

#include <fmt/format.h>

#include "deckle/base/check.h"

namespace deckle {

std::string to_string(IntSpan values) { return fmt::format("[{}]", fmt::join(values.begin(), values.end(), ", ")); }

int64_t numel_of(IntSpan sizes) {
  int64_t count = 1;
  bool overflow = false;
  for (const int64_t size : sizes) {
    check(size >= 0, "a size in shape {} is negative (expected 0 or more)", sizes);
    overflow |= __builtin_mul_overflow(count, size, &count);
  }
  if (overflow && std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  check(!overflow, "shape {} has too many elements (expected fewer than 2^63)", sizes);
  return count;
}

Dims contiguous_strides(IntSpan sizes) {
  Dims strides(sizes.size());
  int64_t stride = 1;
  for (size_t dim = sizes.size(); dim-- > 0;) {
    strides[dim] = stride;
    // Beyond 2^63 only where another size is 0, and strides lead nowhere.
    if (__builtin_mul_overflow(stride, std::max<int64_t>(sizes[dim], 1), &stride)) stride = 0;
  }
  return strides;
}

int64_t wrap_dim(int64_t dim, IntSpan sizes) {
  const int64_t rank = std::max<int64_t>(static_cast<int64_t>(sizes.size()), 1);
  check(dim >= -rank && dim < rank, Argument{"dim"}, "{} is out of range for shape {} (expected {}..{})", dim, sizes, -rank,
        rank - 1);
  return dim < 0 ? dim + rank : dim;
}

Dims broadcast_shapes(IntSpan a, IntSpan b) {
  const size_t rank = std::max(a.size(), b.size());
  Dims result(rank);
  for (size_t i = 0; i < rank; ++i) {  // from the last dim to the first
    const int64_t size_a = i < a.size() ? a[a.size() - 1 - i] : 1;
    const int64_t size_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    check(size_a == size_b || size_a == 1 || size_b == 1, "shapes {} and {} do not broadcast (dim -{}: {} against {})", a, b,
          i + 1, size_a, size_b);
    result[rank - 1 - i] = size_a == 1 ? size_b : size_a;
  }
  return result;
}

}  // namespace deckle

fmt::format_context::iterator fmt::formatter<deckle::IntSpan>::format(deckle::IntSpan values, format_context& context) const {
  return format_to(context.out(), "{}", deckle::to_string(values));
}
