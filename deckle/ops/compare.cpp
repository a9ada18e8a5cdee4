#include "deckle/ops/compare.h"

#include "deckle/base/error.h"
#include "deckle/ops/generated/linalg.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"

namespace deckle {

bool allclose(const Tensor& self, const Tensor& other, FloatArg rtol, FloatArg atol, BoolArg equal_nan) {
  return call_as("allclose", [&] { return all(isclose(self.detach(), other.detach(), rtol, atol, equal_nan)).item<bool>(); });
}

bool allclose(const Tensor& self, const Scalar& other, FloatArg rtol, FloatArg atol, BoolArg equal_nan) {
  return call_as("allclose", [&] { return all(isclose(self.detach(), other, rtol, atol, equal_nan)).item<bool>(); });
}

bool equal(const Tensor& self, const Tensor& other) {
  return call_as("equal", [&] { return self.sizes() == other.sizes() && all(eq(self.detach(), other.detach())).item<bool>(); });
}

bool Tensor::allclose(const Tensor& other, FloatArg rtol, FloatArg atol, BoolArg equal_nan) const {
  return deckle::allclose(*this, other, rtol, atol, equal_nan);
}
bool Tensor::equal(const Tensor& other) const { return deckle::equal(*this, other); }

}  // namespace deckle
