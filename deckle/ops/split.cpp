// Composites that cut a tensor along one dim.

#include <algorithm>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {

Tensor narrow(const Tensor& self, int64_t dim, int64_t start, int64_t length) try {
  const int64_t size = self.size(dim);
  check(start >= -size && start <= size, Argument{"start"}, "{} is out of range for dim {} of shape {} (expected {}..{})", start,
        dim, self.sizes(), -size, size);
  const int64_t first = start < 0 ? start + size : start;
  check(length >= 0 && length <= size - first, Argument{"length"}, "is {} from {} on in dim {} of shape {} (expected 0..{})",
        length, start, dim, self.sizes(), size - first);
  return slice(self, dim, first, first + length);
} catch (...) {
  rethrow_from("narrow");
}

std::vector<Tensor> split(const Tensor& self, int64_t split_size, int64_t dim) try {
  check(split_size > 0, Argument{"split_size"}, "is {} (expected 1 or more)", split_size);
  const int64_t size = self.size(dim);
  std::vector<int64_t> sizes;
  for (int64_t start = 0; start < size || start == 0; start += split_size) sizes.push_back(std::min(split_size, size - start));
  return split_with_sizes(self, sizes, dim);
} catch (...) {
  rethrow_from("split");
}

std::vector<Tensor> chunk(const Tensor& self, int64_t chunks, int64_t dim) try {
  check(chunks > 0, Argument{"chunks"}, "is {} (expected 1 or more)", chunks);
  return split(self, std::max<int64_t>((self.size(dim) - 1) / chunks + 1, 1), dim);
} catch (...) {
  rethrow_from("chunk");
}

}  // namespace deckle
