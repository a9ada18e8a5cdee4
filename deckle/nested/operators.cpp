#include "deckle/nested/operators.h"

#include "deckle/nested/generated/bitwise.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/ops/chained.h"

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
NestedTensor operator%(const NestedTensor& a, const NestedTensor& b) { return remainder(a, b); }
NestedTensor operator%(const NestedTensor& a, const Tensor& b) { return remainder(a, b); }
NestedTensor operator%(const Tensor& a, const NestedTensor& b) { return remainder(a, b); }
NestedTensor operator%(const NestedTensor& a, const Scalar& b) { return remainder(a, b); }
NestedTensor operator%(const Scalar& a, const NestedTensor& b) { return remainder(a, b); }

NestedTensor operator+=(const NestedTensor& a, const NestedTensor& b) { return add_(a, b); }
NestedTensor operator+=(const NestedTensor& a, const Tensor& b) { return add_(a, b); }
NestedTensor operator+=(const NestedTensor& a, const Scalar& b) { return add_(a, b); }
NestedTensor operator-=(const NestedTensor& a, const NestedTensor& b) { return sub_(a, b); }
NestedTensor operator-=(const NestedTensor& a, const Tensor& b) { return sub_(a, b); }
NestedTensor operator-=(const NestedTensor& a, const Scalar& b) { return sub_(a, b); }
NestedTensor operator*=(const NestedTensor& a, const NestedTensor& b) { return mul_(a, b); }
NestedTensor operator*=(const NestedTensor& a, const Tensor& b) { return mul_(a, b); }
NestedTensor operator*=(const NestedTensor& a, const Scalar& b) { return mul_(a, b); }
NestedTensor operator/=(const NestedTensor& a, const NestedTensor& b) { return div_(a, b); }
NestedTensor operator/=(const NestedTensor& a, const Tensor& b) { return div_(a, b); }
NestedTensor operator/=(const NestedTensor& a, const Scalar& b) { return div_(a, b); }
NestedTensor operator%=(const NestedTensor& a, const NestedTensor& b) { return remainder_(a, b); }
NestedTensor operator%=(const NestedTensor& a, const Tensor& b) { return remainder_(a, b); }
NestedTensor operator%=(const NestedTensor& a, const Scalar& b) { return remainder_(a, b); }

NestedTensor operator==(const NestedTensor& a, const NestedTensor& b) { return eq(a, b); }
NestedTensor operator!=(const NestedTensor& a, const NestedTensor& b) { return ne(a, b); }
NestedTensor operator<(const NestedTensor& a, const NestedTensor& b) {
  chained::check_order("operator<", a, b);
  return lt(a, b);
}
NestedTensor operator<=(const NestedTensor& a, const NestedTensor& b) {
  chained::check_order("operator<=", a, b);
  return le(a, b);
}
NestedTensor operator>(const NestedTensor& a, const NestedTensor& b) {
  chained::check_order("operator>", a, b);
  return gt(a, b);
}
NestedTensor operator>=(const NestedTensor& a, const NestedTensor& b) {
  chained::check_order("operator>=", a, b);
  return ge(a, b);
}
NestedTensor operator==(const NestedTensor& a, const Tensor& b) { return eq(a, b); }
NestedTensor operator!=(const NestedTensor& a, const Tensor& b) { return ne(a, b); }
NestedTensor operator<(const NestedTensor& a, const Tensor& b) {
  chained::check_order("operator<", a, b);
  return lt(a, b);
}
NestedTensor operator<=(const NestedTensor& a, const Tensor& b) {
  chained::check_order("operator<=", a, b);
  return le(a, b);
}
NestedTensor operator>(const NestedTensor& a, const Tensor& b) {
  chained::check_order("operator>", a, b);
  return gt(a, b);
}
NestedTensor operator>=(const NestedTensor& a, const Tensor& b) {
  chained::check_order("operator>=", a, b);
  return ge(a, b);
}
NestedTensor operator==(const Tensor& a, const NestedTensor& b) { return eq(a, b); }
NestedTensor operator!=(const Tensor& a, const NestedTensor& b) { return ne(a, b); }
NestedTensor operator<(const Tensor& a, const NestedTensor& b) {
  chained::check_order("operator<", a, b);
  return lt(a, b);
}
NestedTensor operator<=(const Tensor& a, const NestedTensor& b) {
  chained::check_order("operator<=", a, b);
  return le(a, b);
}
NestedTensor operator>(const Tensor& a, const NestedTensor& b) {
  chained::check_order("operator>", a, b);
  return gt(a, b);
}
NestedTensor operator>=(const Tensor& a, const NestedTensor& b) {
  chained::check_order("operator>=", a, b);
  return ge(a, b);
}
NestedTensor operator==(const NestedTensor& a, const Scalar& b) { return eq(a, b); }
NestedTensor operator!=(const NestedTensor& a, const Scalar& b) { return ne(a, b); }
NestedTensor operator<(const NestedTensor& a, const Scalar& b) {
  chained::check_order("operator<", a, b);
  return lt(a, b);
}
NestedTensor operator<=(const NestedTensor& a, const Scalar& b) {
  chained::check_order("operator<=", a, b);
  return le(a, b);
}
NestedTensor operator>(const NestedTensor& a, const Scalar& b) {
  chained::check_order("operator>", a, b);
  return gt(a, b);
}
NestedTensor operator>=(const NestedTensor& a, const Scalar& b) {
  chained::check_order("operator>=", a, b);
  return ge(a, b);
}
NestedTensor operator==(const Scalar& a, const NestedTensor& b) { return eq(b, a); }
NestedTensor operator!=(const Scalar& a, const NestedTensor& b) { return ne(b, a); }
NestedTensor operator<(const Scalar& a, const NestedTensor& b) {
  chained::check_order("operator<", a, b);
  return gt(b, a);
}
NestedTensor operator<=(const Scalar& a, const NestedTensor& b) {
  chained::check_order("operator<=", a, b);
  return ge(b, a);
}
NestedTensor operator>(const Scalar& a, const NestedTensor& b) {
  chained::check_order("operator>", a, b);
  return lt(b, a);
}
NestedTensor operator>=(const Scalar& a, const NestedTensor& b) {
  chained::check_order("operator>=", a, b);
  return le(b, a);
}

NestedTensor operator&(const NestedTensor& a, const NestedTensor& b) { return bitwise_and(a, b); }
NestedTensor operator&(const NestedTensor& a, const Tensor& b) { return bitwise_and(a, b); }
NestedTensor operator&(const NestedTensor& a, const Scalar& b) {
  chained::check_bits("operator&", a, b);
  return bitwise_and(a, b);
}
NestedTensor operator&(const Tensor& a, const NestedTensor& b) { return bitwise_and(b, a); }
NestedTensor operator&(const Scalar& a, const NestedTensor& b) {
  chained::check_bits("operator&", b, a);
  return bitwise_and(b, a);
}
NestedTensor operator|(const NestedTensor& a, const NestedTensor& b) { return bitwise_or(a, b); }
NestedTensor operator|(const NestedTensor& a, const Tensor& b) { return bitwise_or(a, b); }
NestedTensor operator|(const NestedTensor& a, const Scalar& b) {
  chained::check_bits("operator|", a, b);
  return bitwise_or(a, b);
}
NestedTensor operator|(const Tensor& a, const NestedTensor& b) { return bitwise_or(b, a); }
NestedTensor operator|(const Scalar& a, const NestedTensor& b) {
  chained::check_bits("operator|", b, a);
  return bitwise_or(b, a);
}
NestedTensor operator^(const NestedTensor& a, const NestedTensor& b) { return bitwise_xor(a, b); }
NestedTensor operator^(const NestedTensor& a, const Tensor& b) { return bitwise_xor(a, b); }
NestedTensor operator^(const NestedTensor& a, const Scalar& b) {
  chained::check_bits("operator^", a, b);
  return bitwise_xor(a, b);
}
NestedTensor operator^(const Tensor& a, const NestedTensor& b) { return bitwise_xor(b, a); }
NestedTensor operator^(const Scalar& a, const NestedTensor& b) {
  chained::check_bits("operator^", b, a);
  return bitwise_xor(b, a);
}
NestedTensor operator<<(const NestedTensor& a, const NestedTensor& b) { return bitwise_left_shift(a, b); }
NestedTensor operator<<(const NestedTensor& a, const Tensor& b) { return bitwise_left_shift(a, b); }
NestedTensor operator<<(const NestedTensor& a, const Scalar& b) { return bitwise_left_shift(a, b); }
NestedTensor operator>>(const NestedTensor& a, const NestedTensor& b) { return bitwise_right_shift(a, b); }
NestedTensor operator>>(const NestedTensor& a, const Tensor& b) { return bitwise_right_shift(a, b); }
NestedTensor operator>>(const NestedTensor& a, const Scalar& b) { return bitwise_right_shift(a, b); }
NestedTensor operator&=(const NestedTensor& a, const NestedTensor& b) { return bitwise_and_(a, b); }
NestedTensor operator&=(const NestedTensor& a, const Tensor& b) { return bitwise_and_(a, b); }
NestedTensor operator&=(const NestedTensor& a, const Scalar& b) { return bitwise_and_(a, b); }
NestedTensor operator|=(const NestedTensor& a, const NestedTensor& b) { return bitwise_or_(a, b); }
NestedTensor operator|=(const NestedTensor& a, const Tensor& b) { return bitwise_or_(a, b); }
NestedTensor operator|=(const NestedTensor& a, const Scalar& b) { return bitwise_or_(a, b); }
NestedTensor operator^=(const NestedTensor& a, const NestedTensor& b) { return bitwise_xor_(a, b); }
NestedTensor operator^=(const NestedTensor& a, const Tensor& b) { return bitwise_xor_(a, b); }
NestedTensor operator^=(const NestedTensor& a, const Scalar& b) { return bitwise_xor_(a, b); }
NestedTensor operator<<=(const NestedTensor& a, const NestedTensor& b) { return bitwise_left_shift_(a, b); }
NestedTensor operator<<=(const NestedTensor& a, const Tensor& b) { return bitwise_left_shift_(a, b); }
NestedTensor operator<<=(const NestedTensor& a, const Scalar& b) { return bitwise_left_shift_(a, b); }
NestedTensor operator>>=(const NestedTensor& a, const NestedTensor& b) { return bitwise_right_shift_(a, b); }
NestedTensor operator>>=(const NestedTensor& a, const Tensor& b) { return bitwise_right_shift_(a, b); }
NestedTensor operator>>=(const NestedTensor& a, const Scalar& b) { return bitwise_right_shift_(a, b); }
NestedTensor operator~(const NestedTensor& a) { return bitwise_not(a); }

}  // namespace deckle
