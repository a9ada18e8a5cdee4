#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "deckle/base/error.h"
#include "deckle/core/ragged_shape.h"
#include "deckle/core/tensor.h"
#include "deckle/functional/traits.h"

namespace deckle {

/// A batch of components of different sizes, packed without padding: `values` is [rows, regular dims...], where component b
/// holds rows offsets[b] .. offsets[b+1]. Dims, in order: batch, the ragged dims, the regular dims. A value type; copies share
/// memory. What is ragged is a run-time fact: after a reduction over the ragged dim none may be left (see dense()).
///
/// It is differentiable exactly as its values are: a leaf if they are, and so on. Two nested tensors match when their ragged
/// shapes are equal, not when they are the same object.
class NestedTensor {
 public:
  NestedTensor() = default;
  NestedTensor(const NestedTensor&) = default;
  NestedTensor(NestedTensor&&) noexcept = default;
  ~NestedTensor() = default;
  // Of a name: what stands in a temporary, as in `n + 1 = m`, nobody would see.
  NestedTensor& operator=(const NestedTensor&) & = default;
  NestedTensor& operator=(NestedTensor&&) & noexcept = default;

  /// Packed values [rows, ...] and the sizes of the components. `shape` may be undefined: then no dim is ragged and values
  /// are [batch, ...]. In a RaggedCapacity it has a copy of them, with zeros in its spare rows; gradients flow to them.
  NestedTensor(Tensor values, Ragged shape);
  /// What an op made of nested tensors of this shape, or wrote into one, and no caller gave: in a RaggedCapacity zeros are
  /// written to its own spare rows.
  static NestedTensor of_op(Tensor values, Ragged shape);
  /// The same of an op that may give a view of what it reads, row by row: then the rows are those of `of`, which stay as they are
  /// though the room have other lengths by now.
  static NestedTensor of_op(Tensor values, const NestedTensor& of);

  /// Components [L_b, ...] with equal regular dims and dtype; copied one after another. Gradients flow to the components.
  static NestedTensor from_list(TensorList components);
  /// Packed values and the length of each component; the lengths add up to the rows.
  static NestedTensor from_lengths(Tensor values, std::span<const int64_t> lengths);
  static NestedTensor from_lengths(Tensor values, std::initializer_list<int64_t> lengths) {
    return from_lengths(std::move(values), std::span(lengths.begin(), lengths.size()));
  }
  /// Packed values and offsets [components + 1], from 0 to the rows, never falling.
  static NestedTensor from_offsets(Tensor values, std::span<const int64_t> offsets);
  /// The first lengths[b] rows of padded[b]; padded is [B, L, ...]. Gradients flow to `padded`.
  static NestedTensor from_padded(const Tensor& padded, std::span<const int64_t> lengths);
  static NestedTensor from_padded(const Tensor& padded, std::initializer_list<int64_t> lengths) {
    return from_padded(padded, std::span(lengths.begin(), lengths.size()));
  }
  /// The same of int64 or int32 vectors, such as lengths() and offsets() give.
  static NestedTensor from_lengths(Tensor values, const Tensor& lengths);
  static NestedTensor from_offsets(Tensor values, const Tensor& offsets);
  static NestedTensor from_padded(const Tensor& padded, const Tensor& lengths);
  /// The rows where the bool mask [B, L] is true, in order.
  static NestedTensor from_mask(const Tensor& padded, const Tensor& mask);

  bool defined() const { return values_.defined(); }
  explicit operator bool() const = delete;  // an if takes one bool: x.all().item<bool>() or x.defined()
  const Tensor& values() const& { return values_; }
  Tensor values() && { return std::move(values_); }
  const Ragged& ragged() const& { return shape_; }
  Ragged ragged() const&& { return shape_; }
  int ragged_dims() const { return shape_.defined() ? shape_->ragged_dims() : 0; }

  int64_t dim() const { return values_.dim() + ragged_dims(); }
  int64_t ndim() const { return dim(); }
  int64_t numel() const { return values_.numel(); }
  bool is_floating_point() const { return values_.is_floating_point(); }
  Dims shape() const = delete;   // a ragged dim has no one size: n.size(0), n.lengths(), n.values().shape(), n.dense().shape()
  double item() const = delete;  // write n.values().item()
  std::vector<double> to_vector() const = delete;                     // write n.values().to_vector(), or n.to_padded()
  void backward() const = delete;                                     // of a single number: n.sum().backward()
  Tensor index(std::initializer_list<Index> indices) const = delete;  // write n[0].index({...}), or n.values().index({...})
  /// Components for dim 0, a regular dim's size otherwise; an Error for a ragged dim.
  int64_t size(IntArg dim) const;
  bool is_ragged(IntArg dim) const;
  int64_t components() const { return shape_.defined() ? shape_->components() : values_.size(0); }
  DType dtype() const { return values_.dtype(); }
  Device device() const { return values_.device(); }

  /// Lengths [components] and offsets [components + 1] of a tensor with one ragged dim.
  Tensor lengths(DType dtype = DType::int64) const;
  Tensor offsets(DType dtype = DType::int64) const;

  /// Component b, [L_b, ...]: a view, so gradients flow and writes are seen.
  Tensor operator[](IntArg component) const&;
  Tensor operator[](IntArg component) &&;
  std::vector<Tensor> unbind() const;

  /// [B, max length, ...] with `value` in the rest; `length` (0: the longest) sets the padded size. One ragged dim.
  Tensor to_padded(const Scalar& value = 0.0, IntArg length = 0) const;
  /// bool [B, max length]: true on rows that exist.
  Tensor padding_mask(IntArg length = 0) const;

  /// The values of a nested tensor with no ragged dim left; an Error names the ragged dims otherwise.
  const Tensor& dense() const&;
  Tensor dense() && {
    static_cast<void>(dense());  // refuses what has ragged dims
    return std::move(values_);
  }

  NestedTensor requires_grad_(BoolArg value = true) const;
  bool requires_grad() const { return values_.requires_grad(); }
  NestedTensor grad() const;
  /// The same values on a device; shapes are known on the host, and go along. Gradients flow back.
  NestedTensor to(Device device) const;
  NestedTensor detach() const { return of_op(values_.detach(), *this); }

  bool allclose(const NestedTensor& other, FloatArg rtol = 1e-5, FloatArg atol = 1e-8, BoolArg equal_nan = false) const;
  bool equal(const NestedTensor& other) const;

  /// The components: `for (Tensor component : x)`.
  RowIterator<NestedTensor> begin() const { return {*this, 0}; }
  RowIterator<NestedTensor> end() const { return {*this, components()}; }

  // Ops that have `self` first and are methods of torch.Tensor or numpy.ndarray, as on Tensor.
#include "deckle/nested/generated/nested_methods.h"

 private:
  void check_rows() const;

  Tensor values_;
  Ragged shape_;
};

/// What errors say of it as an argument.
Operand operand_of(std::string_view name, const NestedTensor& x);

/// "NestedTensor[512, 4..1024 (mean 118), 768] float32, 60,416 rows".
std::string to_string(const NestedTensor& tensor);
/// The same and an excerpt of the components.
std::ostream& operator<<(std::ostream& stream, const NestedTensor& tensor);

template <>
struct functional::TensorTree<NestedTensor> {
  static void flatten(const NestedTensor& value, std::vector<Tensor>& leaves) { leaves.push_back(value.values()); }
  static NestedTensor unflatten(const NestedTensor& like, const Tensor*& next) {
    const Tensor& values = *next++;
    return values.defined() ? NestedTensor(values, like.ragged()) : NestedTensor();
  }
  /// A nested tensor has derivatives of its own components: equal ragged shapes, not only equal rows.
  static void check_like(const NestedTensor& like, const NestedTensor& given, const char* what);
};

}  // namespace deckle

/// As operator<<.
template <>
struct fmt::formatter<deckle::NestedTensor> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  format_context::iterator format(const deckle::NestedTensor& tensor, format_context& context) const;
};
