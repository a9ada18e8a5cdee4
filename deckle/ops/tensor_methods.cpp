// The curated methods and operators of Tensor, each the free function of the same name.

#include "deckle/base/check.h"
#include "deckle/core/tensor.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/promotion.h"

namespace deckle {
const Tensor& Tensor::operator=(const Tensor& source) const&& { return deckle::copy_(*this, source); }
const Tensor& Tensor::operator=(const Scalar& value) const&& { return deckle::fill_(*this, value); }

RowIterator Tensor::begin() const {
  check(dim() > 0, "a tensor without dims has no rows (expected one dim or more)");
  return {*this, 0};
}
RowIterator Tensor::end() const { return {*this, dim() > 0 ? size(0) : 0}; }

Tensor Tensor::operator[](int64_t index) const { return deckle::select(*this, 0, index); }
Tensor Tensor::add(const Tensor& other) const { return deckle::add(*this, other); }
Tensor Tensor::sub(const Tensor& other) const { return deckle::sub(*this, other); }
Tensor Tensor::mul(const Tensor& other) const { return deckle::mul(*this, other); }
Tensor Tensor::div(const Tensor& other) const { return deckle::div(*this, other); }
Tensor Tensor::matmul(const Tensor& other) const { return deckle::matmul(*this, other); }
Tensor Tensor::sum() const { return deckle::sum(*this); }
Tensor Tensor::sum(OptionalInts dim, bool keepdim) const { return deckle::sum(*this, dim, keepdim); }
Tensor Tensor::mean() const { return deckle::mean(*this); }
Tensor Tensor::mean(OptionalInts dim, bool keepdim) const { return deckle::mean(*this, dim, keepdim); }
Tensor Tensor::softmax(int64_t dim) const { return deckle::softmax(*this, dim); }
Tensor Tensor::view(Ints sizes) const { return deckle::view(*this, sizes); }
Tensor Tensor::reshape(Ints sizes) const { return deckle::reshape(*this, sizes); }
Tensor Tensor::transpose(int64_t dim0, int64_t dim1) const { return deckle::transpose(*this, dim0, dim1); }
Tensor Tensor::t() const { return deckle::t(*this); }
Tensor Tensor::permute(Ints dims) const { return deckle::permute(*this, dims); }
Tensor Tensor::expand(Ints sizes) const { return deckle::expand(*this, sizes); }
Tensor Tensor::select(int64_t dim, int64_t index) const { return deckle::select(*this, dim, index); }
Tensor Tensor::slice(int64_t dim, int64_t start, int64_t end, int64_t step) const {
  return deckle::slice(*this, dim, start, end, step);
}
Tensor Tensor::squeeze(int64_t dim) const { return deckle::squeeze(*this, dim); }
Tensor Tensor::unsqueeze(int64_t dim) const { return deckle::unsqueeze(*this, dim); }
Tensor Tensor::flatten(int64_t start_dim, int64_t end_dim) const { return deckle::flatten(*this, start_dim, end_dim); }
Tensor Tensor::contiguous() const { return deckle::contiguous(*this); }
Tensor Tensor::clone() const { return deckle::clone(*this); }
Tensor Tensor::to(DType dtype) const { return deckle::to(*this, dtype); }
const Tensor& Tensor::copy_(const Tensor& source) const { return deckle::copy_(*this, source); }
const Tensor& Tensor::zero_() const { return deckle::zero_(*this); }
const Tensor& Tensor::fill_(const Scalar& value) const { return deckle::fill_(*this, value); }
const Tensor& Tensor::add_(const Tensor& other) const { return deckle::add_(*this, other); }
const Tensor& Tensor::mul_(const Tensor& other) const { return deckle::mul_(*this, other); }

Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
Tensor operator+(const Tensor& a, const Scalar& b) { return add(a, b); }
Tensor operator-(const Tensor& a, const Scalar& b) { return sub(a, b); }
Tensor operator*(const Tensor& a, const Scalar& b) { return mul(a, b); }
Tensor operator/(const Tensor& a, const Scalar& b) { return div(a, b); }
Tensor operator+(const Scalar& a, const Tensor& b) { return add(a, b); }
Tensor operator-(const Scalar& a, const Tensor& b) { return sub(a, b); }
Tensor operator*(const Scalar& a, const Tensor& b) { return mul(a, b); }
Tensor operator/(const Scalar& a, const Tensor& b) { return div(a, b); }
Tensor operator-(const Tensor& a) { return neg(a); }

const Tensor& operator+=(const Tensor& a, const Tensor& b) { return add_(a, b); }
const Tensor& operator+=(const Tensor& a, const Scalar& b) { return add_(a, b); }
const Tensor& operator-=(const Tensor& a, const Tensor& b) { return sub_(a, b); }
const Tensor& operator-=(const Tensor& a, const Scalar& b) { return sub_(a, b); }
const Tensor& operator*=(const Tensor& a, const Tensor& b) { return mul_(a, b); }
const Tensor& operator*=(const Tensor& a, const Scalar& b) { return mul_(a, b); }
const Tensor& operator/=(const Tensor& a, const Tensor& b) { return div_(a, b); }
const Tensor& operator/=(const Tensor& a, const Scalar& b) { return div_(a, b); }

Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
Tensor operator==(const Tensor& a, const Scalar& b) { return eq(a, b); }
Tensor operator!=(const Tensor& a, const Scalar& b) { return ne(a, b); }
Tensor operator<(const Tensor& a, const Scalar& b) { return lt(a, b); }
Tensor operator<=(const Tensor& a, const Scalar& b) { return le(a, b); }
Tensor operator>(const Tensor& a, const Scalar& b) { return gt(a, b); }
Tensor operator>=(const Tensor& a, const Scalar& b) { return ge(a, b); }
Tensor operator==(const Scalar& a, const Tensor& b) { return eq(b, a); }
Tensor operator!=(const Scalar& a, const Tensor& b) { return ne(b, a); }
Tensor operator<(const Scalar& a, const Tensor& b) { return gt(b, a); }
Tensor operator<=(const Scalar& a, const Tensor& b) { return ge(b, a); }
Tensor operator>(const Scalar& a, const Tensor& b) { return lt(b, a); }
Tensor operator>=(const Scalar& a, const Tensor& b) { return le(b, a); }

Tensor operator&(const Tensor& a, const Tensor& b) {
  require_bool("operator&", {a.dtype(), b.dtype()});
  return logical_and(a, b);
}
Tensor operator|(const Tensor& a, const Tensor& b) {
  require_bool("operator|", {a.dtype(), b.dtype()});
  return logical_or(a, b);
}
Tensor operator^(const Tensor& a, const Tensor& b) {
  require_bool("operator^", {a.dtype(), b.dtype()});
  return logical_xor(a, b);
}
Tensor operator~(const Tensor& a) {
  require_bool("operator~", {a.dtype()});
  return logical_not(a);
}

}  // namespace deckle
