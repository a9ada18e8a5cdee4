#include "deckle/nested/nested_tensor.h"

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

Tensor index_tensor(std::span<const int64_t> values, DType dtype = DType::int64) {
  check(dtype == DType::int64 || dtype == DType::int32, "dtype {} for indices (expected int32 or int64)", name(dtype));
  const Tensor result = empty({static_cast<int64_t>(values.size())}, dtype);
  visit(dtype, [&]<typename T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, int32_t> || std::is_same_v<T, int64_t>) {
      for (const int64_t value : values) {
        check(value == static_cast<int64_t>(static_cast<T>(value)), "the value {} does not fit {}", value, name(dtype));
      }
      std::copy(values.begin(), values.end(), static_cast<T*>(result.raw_data()));
    }
  });
  return result;
}

void require_one_ragged_dim(const NestedTensor& x, const char* what) {
  check(x.ragged_dims() == 1, "{} needs one ragged dim; the shape is {}", what, nested::shape_string(x));
}

/// padded [B, L, ...] -> [B * L, ...]
Tensor flat_rows(const Tensor& padded) { return flatten(padded, 0, 1); }

}  // namespace

NestedTensor::NestedTensor(Tensor values, Ragged shape) : values_(std::move(values)), shape_(std::move(shape)) {
  check(values_.defined() && values_.dim() >= 1, "a nested tensor's values need at least one dim, that of the rows");
  if (shape_.defined()) {
    check(values_.size(0) == shape_->rows(), "values of shape {} have {} rows, but {} have {}", to_string(values_.sizes()), values_.size(0),
          to_string(shape_), shape_->rows());
  }
}

NestedTensor NestedTensor::from_list(TensorList components) {
  check(!components.empty(), "from_list: an empty list has no regular dims; use from_lengths with values of no rows");
  std::vector<int64_t> lengths;
  for (size_t b = 0; b < components.size(); ++b) {
    const Tensor& component = components[b];
    check(component.dim() >= 1, "from_list: component {} has no dims (expected [L, ...])", b);
    check(component.sizes().subspan(1).size() == components[0].sizes().subspan(1).size() &&
              std::equal(component.sizes().begin() + 1, component.sizes().end(), components[0].sizes().begin() + 1),
          "from_list: component {} has shape {}, component 0 has {}: regular dims must agree", b, to_string(component.sizes()),
          to_string(components[0].sizes()));
    check(component.dtype() == components[0].dtype(), "from_list: component {} is {}, component 0 is {}", b, name(component.dtype()),
          name(components[0].dtype()));
    lengths.push_back(component.size(0));
  }
  return {cat(components, 0), Ragged::from_lengths(lengths)};
}

NestedTensor NestedTensor::from_lengths(Tensor values, std::span<const int64_t> lengths) {
  return {std::move(values), Ragged::from_lengths(lengths)};
}

NestedTensor NestedTensor::from_offsets(Tensor values, std::span<const int64_t> offsets) {
  return {std::move(values), Ragged::from_offsets(offsets)};
}

NestedTensor NestedTensor::from_padded(const Tensor& padded, std::span<const int64_t> lengths) {
  check(padded.dim() >= 2, "from_padded: shape {} (expected [B, L, ...])", to_string(padded.sizes()));
  check(static_cast<int64_t>(lengths.size()) == padded.size(0), "from_padded: {} lengths for a batch of {}", lengths.size(), padded.size(0));
  const int64_t width = padded.size(1);
  std::vector<int64_t> rows;
  for (size_t b = 0; b < lengths.size(); ++b) {
    check(lengths[b] >= 0 && lengths[b] <= width, "from_padded: length {} of component {} is outside 0..{}", lengths[b], b, width);
    for (int64_t i = 0; i < lengths[b]; ++i) rows.push_back(static_cast<int64_t>(b) * width + i);
  }
  return {index_select(flat_rows(padded), 0, index_tensor(rows)), Ragged::from_lengths(lengths)};
}

NestedTensor NestedTensor::from_mask(const Tensor& padded, const Tensor& mask) {
  check(mask.dtype() == DType::bool_ && mask.dim() == 2 && padded.dim() >= 2 && mask.size(0) == padded.size(0) && mask.size(1) == padded.size(1),
        "from_mask: mask {} {} for padded {} (expected a bool mask [B, L] for [B, L, ...])", to_string(mask.sizes()), name(mask.dtype()),
        to_string(padded.sizes()));
  const std::vector<int64_t> present = mask.to_vector<int64_t>();
  const int64_t width = mask.size(1);
  std::vector<int64_t> rows, lengths(static_cast<size_t>(mask.size(0)), 0);
  for (int64_t at = 0; at < static_cast<int64_t>(present.size()); ++at) {
    if (present[static_cast<size_t>(at)] == 0) continue;
    rows.push_back(at);
    ++lengths[static_cast<size_t>(at / width)];
  }
  return {index_select(flat_rows(padded), 0, index_tensor(rows)), Ragged::from_lengths(lengths)};
}

bool NestedTensor::is_ragged(int64_t dim) const {
  dim = nested::wrap_dim(dim, *this);
  return dim >= 1 && dim <= ragged_dims();
}

int64_t NestedTensor::size(int64_t dim) const {
  dim = nested::wrap_dim(dim, *this);
  check(!is_ragged(dim), "size({}): the dim is ragged in shape {} (use lengths())", dim, nested::shape_string(*this));
  return dim == 0 ? components() : values_.size(dim - ragged_dims());
}

Tensor NestedTensor::lengths(DType dtype) const {
  require_one_ragged_dim(*this, "lengths()");
  return index_tensor(shape_->sizes(), dtype);
}

Tensor NestedTensor::offsets(DType dtype) const {
  require_one_ragged_dim(*this, "offsets()");
  return index_tensor(shape_->offsets(), dtype);
}

Tensor NestedTensor::operator[](int64_t component) const {
  check(component >= -components() && component < components(), "component {} is out of range for shape {}", component, nested::shape_string(*this));
  if (component < 0) component += components();
  if (!shape_.defined()) return select(values_, 0, component);
  const auto at = static_cast<size_t>(component);
  const Tensor rows = slice(values_, 0, shape_->offsets()[at], shape_->offsets()[at + 1], 1);
  if (ragged_dims() == 1) return rows;
  Dims sizes;
  for (int dim = 0; dim < ragged_dims(); ++dim) sizes.push_back(shape_->size(component, dim));
  for (int64_t dim = 1; dim < values_.dim(); ++dim) sizes.push_back(values_.size(dim));
  return view(rows, sizes);
}

std::vector<Tensor> NestedTensor::unbind() const {
  std::vector<Tensor> result;
  for (int64_t b = 0; b < components(); ++b) result.push_back((*this)[b]);
  return result;
}

Tensor NestedTensor::to_padded(const Scalar& value, int64_t length) const {
  require_one_ragged_dim(*this, "to_padded()");
  const int64_t width = length == 0 ? shape_->max_size() : length;
  check(shape_->max_size() <= width, "to_padded: a component of length {} does not fit the padded size {}", shape_->max_size(), width);
  // Row `rows` of the extended values is the padding.
  Dims padding_sizes(values_.sizes());
  padding_sizes[0] = 1;
  const Tensor padding = zeros_raw(padding_sizes, values_.dtype(), values_.device());
  padding.fill_(value);
  std::vector<int64_t> rows(static_cast<size_t>(components() * width), shape_->rows());
  for (int64_t b = 0; b < components(); ++b) {
    for (int64_t i = 0; i < shape_->size(b); ++i) rows[static_cast<size_t>(b * width + i)] = shape_->offsets()[static_cast<size_t>(b)] + i;
  }
  const Tensor padded = index_select(cat({values_, padding}, 0), 0, index_tensor(rows));
  Dims sizes = {components(), width};
  for (int64_t dim = 1; dim < values_.dim(); ++dim) sizes.push_back(values_.size(dim));
  return view(padded, sizes);
}

Tensor NestedTensor::padding_mask(int64_t length) const {
  require_one_ragged_dim(*this, "padding_mask()");
  const int64_t width = length == 0 ? shape_->max_size() : length;
  check(shape_->max_size() <= width, "padding_mask: a component of length {} does not fit the padded size {}", shape_->max_size(), width);
  const Tensor mask = zeros_raw({components(), width}, DType::bool_, values_.device());
  for (int64_t b = 0; b < components(); ++b) {
    if (shape_->size(b) > 0) std::fill_n(mask.data<bool>() + b * width, shape_->size(b), true);
  }
  return mask;
}

const Tensor& NestedTensor::dense() const {
  check(!shape_.defined(), "dense(): shape {} has {} ragged dim{} left (use values() or to_padded())", nested::shape_string(*this), ragged_dims(),
        ragged_dims() == 1 ? "" : "s");
  return values_;
}

const NestedTensor& NestedTensor::requires_grad_(bool value) const {
  values_.requires_grad_(value);
  return *this;
}

NestedTensor NestedTensor::grad() const {
  const Tensor gradient = values_.grad();
  return gradient.defined() ? NestedTensor(gradient, shape_) : NestedTensor();
}

}  // namespace deckle
