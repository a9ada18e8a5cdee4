#include "deckle/ops/compare.h"

#include "deckle/nested/structure.h"

namespace deckle {

bool allclose(const NestedTensor& self, const NestedTensor& other, double rtol, double atol, bool equal_nan) {
  return self.ragged() == other.ragged() && allclose(self.values(), other.values(), rtol, atol, equal_nan);
}

bool equal(const NestedTensor& self, const NestedTensor& other) {
  return self.ragged() == other.ragged() && equal(self.values(), other.values());
}

}  // namespace deckle
