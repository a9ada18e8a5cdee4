// Members of Tensor that are no ops, and operators, each the free function that it stands for.

#include "deckle/autograd/history.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor.h"
#include "deckle/ops/chained.h"
#include "deckle/ops/generated/bitwise.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/indexing.h"
#include "deckle/ops/promotion.h"

namespace deckle {
namespace {

/// Refuses to write what nobody can read: `x.index({mask}) = 1` chooses a copy.
void require_holder(const Tensor& written) {
  if (!written.defined() || written.shared_impl().use_count() > 1 || written.storage()->foreign()) return;
  const Tensor& base = autograd::base_of(written);  // the tensor itself, unless it is a view, which holds its base
  const bool alone = !base.is_same(written) && base.shared_impl().use_count() == 1;
  if (written.storage().use_count() > (alone ? 2 : 1)) return;
  call_as("operator=", [] {
    fail(
        "nothing holds the tensor that is assigned to, so that the values are lost (expected a view of a tensor, as x[0]; "
        "index_put_ writes where masks and indices say)");
  });
}

}  // namespace

const Tensor& Tensor::operator=(const Tensor& source) const&& {
  require_holder(*this);
  call_as("operator=", {{"self", *this}, {"source", source}}, [&] {
    check(!defined() || !source.defined() || category(dtype()) >= category(source.dtype()), Argument{"source"},
          "is {} and cannot be written into {} (expected a dtype that holds it; copy_ converts)", name(source.dtype()),
          name(dtype()));
  });
  deckle::copy_(*this, source);
  return *this;
}
const Tensor& Tensor::operator=(const Scalar& value) const&& {
  require_holder(*this);
  deckle::fill_(*this, value);
  return *this;
}

// A list is made before the function that takes it is called: where it finds no memory, it says so itself.
TensorList::TensorList(std::vector<Tensor>&& tensors)
    : held_(call_as("TensorList", [&] { return std::make_shared<const std::vector<Tensor>>(std::move(tensors)); })) {
  static_cast<std::span<const Tensor>&>(*this) = *held_;
}
TensorList::TensorList(std::initializer_list<Tensor> tensors)
    : TensorList(call_as("TensorList", [&] { return std::vector<Tensor>(tensors); })) {}
TensorList::TensorList(Tensor&& tensor) : TensorList({tensor}) {}

RowIterator<Tensor> Tensor::begin() const {
  call_as("begin", [&] { check(dim() > 0, "a tensor without dims has no rows (expected one dim or more)"); });
  return {*this, 0};
}
RowIterator<Tensor> Tensor::end() const { return {*this, dim() > 0 ? size(0) : 0}; }

// What chooses from a temporary takes its handle away, so that require_holder sees whether another one is left.
Tensor Tensor::operator[](IntArg index) const& { return deckle::select(*this, 0, index); }
Tensor Tensor::operator[](IntArg index) && {
  const Tensor from = std::move(*this);
  return from[index];
}
template <>
Tensor Tensor::operator[](const Slice& range) const& {
  return index({range});
}
template <>
Tensor Tensor::operator[](const Slice& range) && {
  const Tensor from = std::move(*this);
  return from[range];
}
IndexedTensor Tensor::operator[](const Tensor& positions) const& { return {index({positions}), *this, positions}; }
IndexedTensor Tensor::operator[](const Tensor& positions) && {
  Tensor values = index({positions});
  return {std::move(values), std::move(*this), positions};
}

void IndexedTensor::write(const Tensor& source) const {
  require_holder(base_);
  base_.index_put_({index_}, source);
}
const IndexedTensor& IndexedTensor::operator=(const Tensor& source) const&& {
  write(source);
  return *this;
}
const IndexedTensor& IndexedTensor::operator=(const Scalar& value) const&& {
  require_holder(base_);
  base_.index_put_({index_}, value);
  return *this;
}
const Tensor& detail::writable(const Tensor& temporary) {
  require_holder(temporary);
  return temporary;
}
void detail::written(const IndexedTensor& chosen) { chosen.write(chosen); }

std::vector<Tensor> Tensor::unbind(IntArg dim) const { return deckle::unbind(*this, dim); }

Tensor Tensor::T() const& {
  Dims reversed;
  for (int64_t dim = this->dim() - 1; dim >= 0; --dim) reversed.push_back(dim);
  return deckle::permute(*this, reversed);
}
Tensor Tensor::T() && {
  const Tensor from = std::move(*this);
  return from.T();
}
Tensor Tensor::mT() const& { return deckle::transpose(*this, -2, -1); }
Tensor Tensor::mT() && { return deckle::transpose(std::move(*this), -2, -1); }

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
Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
Tensor operator%(const Tensor& a, const Scalar& b) { return remainder(a, b); }
Tensor operator%(const Scalar& a, const Tensor& b) { return remainder(a, b); }

Tensor operator+=(const Tensor& a, const Tensor& b) { return add_(a, b); }
Tensor operator+=(const Tensor& a, const Scalar& b) { return add_(a, b); }
Tensor operator-=(const Tensor& a, const Tensor& b) { return sub_(a, b); }
Tensor operator-=(const Tensor& a, const Scalar& b) { return sub_(a, b); }
Tensor operator*=(const Tensor& a, const Tensor& b) { return mul_(a, b); }
Tensor operator*=(const Tensor& a, const Scalar& b) { return mul_(a, b); }
Tensor operator/=(const Tensor& a, const Tensor& b) { return div_(a, b); }
Tensor operator/=(const Tensor& a, const Scalar& b) { return div_(a, b); }
Tensor operator%=(const Tensor& a, const Tensor& b) { return remainder_(a, b); }
Tensor operator%=(const Tensor& a, const Scalar& b) { return remainder_(a, b); }

Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
Tensor operator<(const Tensor& a, const Tensor& b) {
  chained::check_order("operator<", a, b);
  return lt(a, b);
}
Tensor operator<=(const Tensor& a, const Tensor& b) {
  chained::check_order("operator<=", a, b);
  return le(a, b);
}
Tensor operator>(const Tensor& a, const Tensor& b) {
  chained::check_order("operator>", a, b);
  return gt(a, b);
}
Tensor operator>=(const Tensor& a, const Tensor& b) {
  chained::check_order("operator>=", a, b);
  return ge(a, b);
}
Tensor operator==(const Tensor& a, const Scalar& b) { return eq(a, b); }
Tensor operator!=(const Tensor& a, const Scalar& b) { return ne(a, b); }
Tensor operator<(const Tensor& a, const Scalar& b) {
  chained::check_order("operator<", a, b);
  return lt(a, b);
}
Tensor operator<=(const Tensor& a, const Scalar& b) {
  chained::check_order("operator<=", a, b);
  return le(a, b);
}
Tensor operator>(const Tensor& a, const Scalar& b) {
  chained::check_order("operator>", a, b);
  return gt(a, b);
}
Tensor operator>=(const Tensor& a, const Scalar& b) {
  chained::check_order("operator>=", a, b);
  return ge(a, b);
}
Tensor operator==(const Scalar& a, const Tensor& b) { return eq(b, a); }
Tensor operator!=(const Scalar& a, const Tensor& b) { return ne(b, a); }
Tensor operator<(const Scalar& a, const Tensor& b) {
  chained::check_order("operator<", a, b);
  return gt(b, a);
}
Tensor operator<=(const Scalar& a, const Tensor& b) {
  chained::check_order("operator<=", a, b);
  return ge(b, a);
}
Tensor operator>(const Scalar& a, const Tensor& b) {
  chained::check_order("operator>", a, b);
  return lt(b, a);
}
Tensor operator>=(const Scalar& a, const Tensor& b) {
  chained::check_order("operator>=", a, b);
  return le(b, a);
}

Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }
Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
Tensor operator^(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
Tensor operator~(const Tensor& a) { return bitwise_not(a); }

Tensor operator&(const Tensor& a, const Scalar& b) {
  chained::check_bits("operator&", a, b);
  return bitwise_and(a, b);
}
Tensor operator&(const Scalar& a, const Tensor& b) {
  chained::check_bits("operator&", b, a);
  return bitwise_and(b, a);
}
Tensor operator&=(const Tensor& a, const Tensor& b) { return bitwise_and_(a, b); }
Tensor operator&=(const Tensor& a, const Scalar& b) { return bitwise_and_(a, b); }
Tensor operator|(const Tensor& a, const Scalar& b) {
  chained::check_bits("operator|", a, b);
  return bitwise_or(a, b);
}
Tensor operator|(const Scalar& a, const Tensor& b) {
  chained::check_bits("operator|", b, a);
  return bitwise_or(b, a);
}
Tensor operator|=(const Tensor& a, const Tensor& b) { return bitwise_or_(a, b); }
Tensor operator|=(const Tensor& a, const Scalar& b) { return bitwise_or_(a, b); }
Tensor operator^(const Tensor& a, const Scalar& b) {
  chained::check_bits("operator^", a, b);
  return bitwise_xor(a, b);
}
Tensor operator^(const Scalar& a, const Tensor& b) {
  chained::check_bits("operator^", b, a);
  return bitwise_xor(b, a);
}
Tensor operator^=(const Tensor& a, const Tensor& b) { return bitwise_xor_(a, b); }
Tensor operator^=(const Tensor& a, const Scalar& b) { return bitwise_xor_(a, b); }
Tensor operator<<(const Tensor& a, const Tensor& b) { return bitwise_left_shift(a, b); }
Tensor operator<<=(const Tensor& a, const Tensor& b) { return bitwise_left_shift_(a, b); }
Tensor operator<<(const Tensor& a, const Scalar& b) { return bitwise_left_shift(a, b); }
Tensor operator<<=(const Tensor& a, const Scalar& b) { return bitwise_left_shift_(a, b); }
Tensor operator>>(const Tensor& a, const Tensor& b) { return bitwise_right_shift(a, b); }
Tensor operator>>=(const Tensor& a, const Tensor& b) { return bitwise_right_shift_(a, b); }
Tensor operator>>(const Tensor& a, const Scalar& b) { return bitwise_right_shift(a, b); }
Tensor operator>>=(const Tensor& a, const Scalar& b) { return bitwise_right_shift_(a, b); }

}  // namespace deckle
