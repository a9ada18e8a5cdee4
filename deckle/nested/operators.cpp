#include "deckle/nested/operators.h"

#include "deckle/nested/generated/pointwise.h"

namespace deckle {

NestedTensor operator+(const NestedTensor& a, const NestedTensor& b) { return add(a, b); }
NestedTensor operator+(const NestedTensor& a, const Tensor& b) { return add(a, b); }
NestedTensor operator+(const Tensor& a, const NestedTensor& b) { return add(a, b); }
NestedTensor operator+(const NestedTensor& a, const Scalar& b) { return add(a, b); }
NestedTensor operator+(const Scalar& a, const NestedTensor& b) { return add(a, b); }
NestedTensor operator-(const NestedTensor& a, const NestedTensor& b) { return sub(a, b); }
NestedTensor operator-(const NestedTensor& a, const Tensor& b) { return sub(a, b); }
NestedTensor operator-(const Tensor& a, const NestedTensor& b) { return sub(a, b); }
NestedTensor operator-(const NestedTensor& a, const Scalar& b) { return sub(a, b); }
NestedTensor operator-(const Scalar& a, const NestedTensor& b) { return sub(a, b); }
NestedTensor operator*(const NestedTensor& a, const NestedTensor& b) { return mul(a, b); }
NestedTensor operator*(const NestedTensor& a, const Tensor& b) { return mul(a, b); }
NestedTensor operator*(const Tensor& a, const NestedTensor& b) { return mul(a, b); }
NestedTensor operator*(const NestedTensor& a, const Scalar& b) { return mul(a, b); }
NestedTensor operator*(const Scalar& a, const NestedTensor& b) { return mul(a, b); }
NestedTensor operator/(const NestedTensor& a, const NestedTensor& b) { return div(a, b); }
NestedTensor operator/(const NestedTensor& a, const Tensor& b) { return div(a, b); }
NestedTensor operator/(const Tensor& a, const NestedTensor& b) { return div(a, b); }
NestedTensor operator/(const NestedTensor& a, const Scalar& b) { return div(a, b); }
NestedTensor operator/(const Scalar& a, const NestedTensor& b) { return div(a, b); }
NestedTensor operator-(const NestedTensor& a) { return neg(a); }

}  // namespace deckle
