// Composites that cut a tensor along one dim.

#include <algorithm>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {

Tensor narrow(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  const int64_t size = self.size(dim);
  check(start >= -size && start <= size, "start {} is out of range for dim {} of shape {}", start, dim, self.sizes());
  const int64_t first = start < 0 ? start + size : start;
  check(length >= 0 && length <= size - first, "{} elements from {} on are more than dim {} of shape {} has", length, start, dim,
        self.sizes());
  return slice(self, dim, first, first + length);
}

std::vector<Tensor> split(const Tensor& self, int64_t split_size, int64_t dim) {
  check(split_size > 0, "split_size is {} (expected 1 or more)", split_size);
  const int64_t size = self.size(dim);
  std::vector<int64_t> sizes;
  for (int64_t start = 0; start < size || start == 0; start += split_size) sizes.push_back(std::min(split_size, size - start));
  return split_with_sizes(self, sizes, dim);
}

std::vector<Tensor> chunk(const Tensor& self, int64_t chunks, int64_t dim) {
  check(chunks > 0, "chunks is {} (expected 1 or more)", chunks);
  return split(self, std::max<int64_t>((self.size(dim) - 1) / chunks + 1, 1), dim);
}

}  // namespace deckle
