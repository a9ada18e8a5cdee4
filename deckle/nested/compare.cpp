#include "deckle/ops/compare.h"

#include "deckle/nested/structure.h"

namespace deckle {

bool allclose(const NestedTensor& self, const NestedTensor& other, FloatArg rtol, FloatArg atol, BoolArg equal_nan) {
  return self.ragged() == other.ragged() && allclose(self.values(), other.values(), rtol, atol, equal_nan);
}

bool equal(const NestedTensor& self, const NestedTensor& other) {
  return self.ragged() == other.ragged() && equal(self.values(), other.values());
}

bool NestedTensor::allclose(const NestedTensor& other, FloatArg rtol, FloatArg atol, BoolArg equal_nan) const {
  return deckle::allclose(*this, other, rtol, atol, equal_nan);
}
bool NestedTensor::equal(const NestedTensor& other) const { return deckle::equal(*this, other); }

}  // namespace deckle
