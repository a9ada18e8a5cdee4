#include "deckle/ops/generated/sort.h"
#include "deckle/base/check.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {

Tensor argsort(const Tensor& self, int64_t dim, bool descending) try {
  return std::get<1>(sort(self, dim, descending));
} catch (...) {
  rethrow_from("argsort");
}

std::tuple<Tensor, Tensor> topk(const Tensor& self, int64_t k, int64_t dim, bool largest) try {
  check(self.dim() > 0 && k >= 0 && k <= self.size(dim), Argument{"k"}, "is {} (expected 0..{})", k,
        self.dim() > 0 ? self.size(dim) : 0);
  const Tensor indices = contiguous(narrow(argsort(self, dim, largest), dim, 0, k));
  return {gather(self, dim, indices), indices};
} catch (...) {
  rethrow_from("topk");
}

}  // namespace deckle
