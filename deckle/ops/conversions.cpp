// Copies and conversions.

#include "deckle/ops/copy.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {

namespace native {

Tensor clone(const Tensor& self) { return copied(self, self.dtype()); }

Tensor convert(const Tensor& self, DType dtype) { return copied(self, dtype); }

void copy_(const Tensor& self, const Tensor& source) {
  check_writable(self);
  copy_into(self, source);
}

}  // namespace native

Tensor composite::detach(const Tensor& self) { return self.detach(); }

}  // namespace deckle
