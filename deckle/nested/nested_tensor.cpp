#include "deckle/nested/nested_tensor.h"

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/base/range.h"
#include "deckle/core/ragged_room.h"
#include "deckle/core/rethrow.h"
#include "deckle/core/shown.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/capacity.h"
#include "deckle/nested/padding.h"
#include "deckle/nested/rows.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

void require_one_ragged_dim(const NestedTensor& x) {
  check(x.ragged_dims() == 1, "shape {} has {} ragged dims (expected 1)", nested::ShapeOf{x}, x.ragged_dims());
}

}  // namespace

void functional::TensorTree<NestedTensor>::check_like(const NestedTensor& like, const NestedTensor& given, const char* what) {
  if (!given.defined()) return;
  check(like.defined(), "a {} for an undefined nested tensor (expected an undefined one)", what);
  try {
    nested::require_same_ragged(like, given);
  } catch (const Error& error) {
    throw Error(error.kind(), what, "does not fit: " + error.detail());
  }
  TensorTree<Tensor>::check_like(like.values(), given.values(), what);
}

void NestedTensor::check_rows() const {
  check(values_.defined() && (values_.dim() >= 1 || !shape_.defined()),
        "values without dims (expected at least one, that of the rows)");
  if (!shape_.defined()) return;
  check(values_.size(0) == shape_->rows(), "values of shape {} have {} rows, but {} have {} (expected as many)", values_.sizes(),
        values_.size(0), Shown{shape_}, shape_->rows());
  const RaggedRoom* const room = shape_->room();
  if (room != nullptr && !(values_.device() == room->offsets.device()))
    fail("values on {}, their RaggedCapacity on {} (expected both on one device)", to_string(values_.device()),
         to_string(room->offsets.device()));
}

NestedTensor::NestedTensor(Tensor values, Ragged shape) : values_(std::move(values)), shape_(std::move(shape)) {
  call_as("NestedTensor", [&] {
    check_rows();
    if (nested::on_device_alone(shape_)) values_ = nested::zero_spare_rows(values_, shape_);
  });
}

NestedTensor NestedTensor::of_op(Tensor values, Ragged shape) {
  return call_as("NestedTensor", [&] {
    NestedTensor result;
    result.values_ = std::move(values), result.shape_ = std::move(shape);
    result.check_rows();
    if (nested::on_device_alone(result.shape_)) {
      Tensor& rows = result.values_;
      // Rows that share their memory cannot be told apart.
      if (rows.size(0) > 1 && rows.stride(0) == 0) rows = deckle::contiguous(rows);
      nested::keep_spare_rows_clear(rows, result.shape_);
    }
    return result;
  });
}

NestedTensor NestedTensor::of_op(Tensor values, const NestedTensor& of) {
  const bool view = nested::on_device_alone(of.shape_) && values.defined() &&
                    values.impl()->storage == of.values_.impl()->storage && values.dim() > 0 &&
                    (values.size(0) <= 1 || values.stride(0) != 0);
  if (!view) return of_op(std::move(values), of.shape_);
  return call_as("NestedTensor", [&] {
    NestedTensor result;
    result.values_ = std::move(values), result.shape_ = of.shape_;
    result.check_rows();
    nested::keep_spare_rows_of_gradient_clear(result.values_, result.shape_);
    return result;
  });
}

NestedTensor NestedTensor::from_list(TensorList components) {
  return call_as("from_list", [&]() -> NestedTensor {
    check(!components.empty(), "an empty list has no regular dims (expected a component; from_lengths takes values of no rows)");
    std::vector<int64_t> lengths;
    for (size_t b = 0; b < components.size(); ++b) {
      const Tensor& component = components[b];
      check(component.defined(), "component {} is undefined (expected a defined one)", b);
      check(component.dim() >= 1, "component {} has no dims (expected [L, ...])", b);
      check(component.sizes().subspan(1).size() == components[0].sizes().subspan(1).size() &&
                std::equal(component.sizes().begin() + 1, component.sizes().end(), components[0].sizes().begin() + 1),
            "component {} has shape {}, component 0 has {} (expected the same regular dims)", b, component.sizes(),
            components[0].sizes());
      check(component.dtype() == components[0].dtype(), "component {} is {}, component 0 is {} (expected one dtype)", b,
            name(component.dtype()), name(components[0].dtype()));
      lengths.push_back(component.size(0));
    }
    return {cat(components, 0), Ragged::from_lengths(lengths)};
  });
}

NestedTensor NestedTensor::from_lengths(Tensor values, std::span<const int64_t> lengths) {
  return call_as("from_lengths", [&] { return NestedTensor(std::move(values), Ragged::from_lengths(lengths)); });
}

NestedTensor NestedTensor::from_offsets(Tensor values, std::span<const int64_t> offsets) {
  return call_as("from_offsets", [&] { return NestedTensor(std::move(values), Ragged::from_offsets(offsets)); });
}

NestedTensor NestedTensor::from_padded(const Tensor& padded, std::span<const int64_t> lengths) {
  return call_as("from_padded", [&] { return deckle::from_padded(padded, Ragged::from_lengths(lengths)); });
}

NestedTensor NestedTensor::from_lengths(Tensor values, const Tensor& lengths) {
  return call_as("from_lengths", [&] { return from_lengths(std::move(values), nested::to_indices(lengths, "lengths")); });
}

NestedTensor NestedTensor::from_offsets(Tensor values, const Tensor& offsets) {
  return call_as("from_offsets", [&] { return from_offsets(std::move(values), nested::to_indices(offsets, "offsets")); });
}

NestedTensor NestedTensor::from_padded(const Tensor& padded, const Tensor& lengths) {
  return call_as("from_padded", [&] { return from_padded(padded, nested::to_indices(lengths, "lengths")); });
}

NestedTensor NestedTensor::from_mask(const Tensor& padded, const Tensor& mask) { return deckle::from_mask(padded, mask); }

bool NestedTensor::is_ragged(IntArg dim) const {
  dim = nested::wrap_dim(dim, *this);
  return dim >= 1 && dim <= ragged_dims();
}

int64_t NestedTensor::size(IntArg dim) const {
  call_as("size", [&] {
    dim = nested::wrap_dim(dim, *this);
    check(!is_ragged(dim), Argument{"dim"}, "{} is ragged in shape {} (expected another, or lengths())", dim,
          nested::ShapeOf{*this});
  });
  return dim == 0 ? components() : values_.size(dim - ragged_dims());
}

Tensor NestedTensor::lengths(DType dtype) const {
  return call_as("lengths", {{"x", *this}}, [&] {
    require_one_ragged_dim(*this);
    return nested::index_tensor(shape_->sizes(), dtype);
  });
}

Tensor NestedTensor::offsets(DType dtype) const {
  return call_as("offsets", {{"x", *this}}, [&] {
    require_one_ragged_dim(*this);
    return nested::index_tensor(shape_->offsets(), dtype);
  });
}

Tensor NestedTensor::operator[](IntArg component) && {
  const NestedTensor from = std::move(*this);
  return from[component];
}
Tensor NestedTensor::operator[](IntArg component) const& {
  call_as("operator[]", [&] {
    check(component >= -components() && component < components(), "component {} is out of range for shape {} (expected {})",
          component, nested::ShapeOf{*this}, Range{-components(), components() - 1});
  });
  const int64_t which = component < 0 ? component + components() : int64_t{component};
  if (!shape_.defined()) return deckle::select(values_, 0, which);
  const auto at = static_cast<size_t>(which);
  const Tensor rows = deckle::slice(values_, 0, shape_->offsets()[at], shape_->offsets()[at + 1], 1);
  if (ragged_dims() == 1) return rows;
  Dims sizes;
  for (int dim = 0; dim < ragged_dims(); ++dim) sizes.push_back(shape_->size(which, dim));
  for (int64_t dim = 1; dim < values_.dim(); ++dim) sizes.push_back(values_.size(dim));
  return deckle::view(rows, sizes);
}

std::vector<Tensor> NestedTensor::unbind() const {
  std::vector<Tensor> result;
  result.reserve(static_cast<size_t>(components()));
  for (int64_t b = 0; b < components(); ++b) result.push_back((*this)[b]);
  return result;
}

Tensor NestedTensor::to_padded(const Scalar& value, IntArg length) const {
  return call_as("to_padded", {{"x", *this}}, [&]() -> Tensor {
    require_one_ragged_dim(*this);
    return deckle::to_padded(*this, {.value = value.to_double(), .sizes = {length}});
  });
}

Tensor NestedTensor::padding_mask(IntArg length) const {
  return call_as("padding_mask", {{"x", *this}}, [&]() -> Tensor {
    require_one_ragged_dim(*this);
    return deckle::padding_mask(*this, {.sizes = {length}});
  });
}

const Tensor& NestedTensor::dense() const& {
  call_as("dense", [&] {
    check(!shape_.defined(), "shape {} has {} ragged dim{} left (expected none; see values() and to_padded())",
          nested::ShapeOf{*this}, ragged_dims(), ragged_dims() == 1 ? "" : "s");
  });
  return values_;
}

NestedTensor NestedTensor::requires_grad_(BoolArg value) const {
  const bool becomes_leaf = value && !values_.requires_grad();
  values_.requires_grad_(value);
  if (becomes_leaf && nested::on_device_alone(shape_)) nested::clear_spare_rows_of_gradient(values_, shape_);
  return *this;
}

NestedTensor NestedTensor::to(Device device) const {
  call_as("to", [&] {
    const RaggedRoom* const room = shape_.defined() ? shape_->room() : nullptr;
    if (room != nullptr && !(device == room->offsets.device()))
      fail(
          "the lengths lie in a RaggedCapacity on {} and stay there (expected NestedTensor(x.values().to(device), ragged) with a "
          "room, or lengths, for {})",
          to_string(room->offsets.device()), to_string(device));
  });
  return of_op(values_.to(device), *this);
}

NestedTensor NestedTensor::grad() const {
  const Tensor gradient = values_.grad();
  NestedTensor result;
  if (gradient.defined()) result.values_ = gradient, result.shape_ = shape_;  // with the rows that came, of whatever batches
  return result;
}

}  // namespace deckle
