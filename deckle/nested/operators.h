#pragma once

#include "deckle/nested/nested_tensor.h"

namespace deckle {

// Operators on nested tensors, dense tensors that broadcast with them, and numbers.
NestedTensor operator+(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator+(const NestedTensor& a, const Tensor& b);
NestedTensor operator+(const Tensor& a, const NestedTensor& b);
NestedTensor operator+(const NestedTensor& a, const Scalar& b);
NestedTensor operator+(const Scalar& a, const NestedTensor& b);
NestedTensor operator-(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator-(const NestedTensor& a, const Tensor& b);
NestedTensor operator-(const Tensor& a, const NestedTensor& b);
NestedTensor operator-(const NestedTensor& a, const Scalar& b);
NestedTensor operator-(const Scalar& a, const NestedTensor& b);
NestedTensor operator*(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator*(const NestedTensor& a, const Tensor& b);
NestedTensor operator*(const Tensor& a, const NestedTensor& b);
NestedTensor operator*(const NestedTensor& a, const Scalar& b);
NestedTensor operator*(const Scalar& a, const NestedTensor& b);
NestedTensor operator/(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator/(const NestedTensor& a, const Tensor& b);
NestedTensor operator/(const Tensor& a, const NestedTensor& b);
NestedTensor operator/(const NestedTensor& a, const Scalar& b);
NestedTensor operator/(const Scalar& a, const NestedTensor& b);
NestedTensor operator-(const NestedTensor& a);
NestedTensor operator%(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator%(const NestedTensor& a, const Tensor& b);
NestedTensor operator%(const Tensor& a, const NestedTensor& b);
NestedTensor operator%(const NestedTensor& a, const Scalar& b);
NestedTensor operator%(const Scalar& a, const NestedTensor& b);

// In place.
NestedTensor operator+=(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator+=(const NestedTensor& a, const Tensor& b);
NestedTensor operator+=(const NestedTensor& a, const Scalar& b);
NestedTensor operator-=(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator-=(const NestedTensor& a, const Tensor& b);
NestedTensor operator-=(const NestedTensor& a, const Scalar& b);
NestedTensor operator*=(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator*=(const NestedTensor& a, const Tensor& b);
NestedTensor operator*=(const NestedTensor& a, const Scalar& b);
NestedTensor operator/=(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator/=(const NestedTensor& a, const Tensor& b);
NestedTensor operator/=(const NestedTensor& a, const Scalar& b);
NestedTensor operator%=(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator%=(const NestedTensor& a, const Tensor& b);
NestedTensor operator%=(const NestedTensor& a, const Scalar& b);

// Element by element; of bool.
NestedTensor operator==(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator!=(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator<(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator<=(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator>(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator>=(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator==(const NestedTensor& a, const Tensor& b);
NestedTensor operator!=(const NestedTensor& a, const Tensor& b);
NestedTensor operator<(const NestedTensor& a, const Tensor& b);
NestedTensor operator<=(const NestedTensor& a, const Tensor& b);
NestedTensor operator>(const NestedTensor& a, const Tensor& b);
NestedTensor operator>=(const NestedTensor& a, const Tensor& b);
NestedTensor operator==(const Tensor& a, const NestedTensor& b);
NestedTensor operator!=(const Tensor& a, const NestedTensor& b);
NestedTensor operator<(const Tensor& a, const NestedTensor& b);
NestedTensor operator<=(const Tensor& a, const NestedTensor& b);
NestedTensor operator>(const Tensor& a, const NestedTensor& b);
NestedTensor operator>=(const Tensor& a, const NestedTensor& b);
NestedTensor operator==(const NestedTensor& a, const Scalar& b);
NestedTensor operator!=(const NestedTensor& a, const Scalar& b);
NestedTensor operator<(const NestedTensor& a, const Scalar& b);
NestedTensor operator<=(const NestedTensor& a, const Scalar& b);
NestedTensor operator>(const NestedTensor& a, const Scalar& b);
NestedTensor operator>=(const NestedTensor& a, const Scalar& b);
NestedTensor operator==(const Scalar& a, const NestedTensor& b);
NestedTensor operator!=(const Scalar& a, const NestedTensor& b);
NestedTensor operator<(const Scalar& a, const NestedTensor& b);
NestedTensor operator<=(const Scalar& a, const NestedTensor& b);
NestedTensor operator>(const Scalar& a, const NestedTensor& b);
NestedTensor operator>=(const Scalar& a, const NestedTensor& b);

// Of the bits of integers, of bool logical.
NestedTensor operator&(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator&(const NestedTensor& a, const Tensor& b);
NestedTensor operator&(const NestedTensor& a, const Scalar& b);
NestedTensor operator&(const Tensor& a, const NestedTensor& b);
NestedTensor operator&(const Scalar& a, const NestedTensor& b);
NestedTensor operator|(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator|(const NestedTensor& a, const Tensor& b);
NestedTensor operator|(const NestedTensor& a, const Scalar& b);
NestedTensor operator|(const Tensor& a, const NestedTensor& b);
NestedTensor operator|(const Scalar& a, const NestedTensor& b);
NestedTensor operator^(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator^(const NestedTensor& a, const Tensor& b);
NestedTensor operator^(const NestedTensor& a, const Scalar& b);
NestedTensor operator^(const Tensor& a, const NestedTensor& b);
NestedTensor operator^(const Scalar& a, const NestedTensor& b);
NestedTensor operator<<(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator<<(const NestedTensor& a, const Tensor& b);
NestedTensor operator<<(const NestedTensor& a, const Scalar& b);
NestedTensor operator>>(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator>>(const NestedTensor& a, const Tensor& b);
NestedTensor operator>>(const NestedTensor& a, const Scalar& b);
NestedTensor operator&=(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator&=(const NestedTensor& a, const Tensor& b);
NestedTensor operator&=(const NestedTensor& a, const Scalar& b);
NestedTensor operator|=(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator|=(const NestedTensor& a, const Tensor& b);
NestedTensor operator|=(const NestedTensor& a, const Scalar& b);
NestedTensor operator^=(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator^=(const NestedTensor& a, const Tensor& b);
NestedTensor operator^=(const NestedTensor& a, const Scalar& b);
NestedTensor operator<<=(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator<<=(const NestedTensor& a, const Tensor& b);
NestedTensor operator<<=(const NestedTensor& a, const Scalar& b);
NestedTensor operator>>=(const NestedTensor& a, const NestedTensor& b);
NestedTensor operator>>=(const NestedTensor& a, const Tensor& b);
NestedTensor operator>>=(const NestedTensor& a, const Scalar& b);
NestedTensor operator~(const NestedTensor& a);

}  // namespace deckle
