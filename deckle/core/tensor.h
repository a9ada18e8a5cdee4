#pragma once

#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "deckle/base/device.h"
#include "deckle/base/dtype.h"
#include "deckle/core/dims.h"
#include "deckle/core/scalar.h"
#include "deckle/core/storage.h"

namespace deckle {

struct TensorImpl;
class Index;
class RowIterator;

/// An n-dimensional strided array: a shared handle, so copying one copies no data. Views share their base's storage.
/// Not thread-safe for concurrent writes; reading from several threads is fine. Gradients: see deckle/autograd.
class Tensor {
 public:
  /// The undefined tensor: "not given".
  Tensor() = default;
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;

  /// `x = y` makes x another handle of y's tensor.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// `x[0] = y`, an assignment to a view that has no name, writes y's elements (broadcast) into it, as copy_ does.
  const Tensor& operator=(const Tensor& source) const&&;
  const Tensor& operator=(const Scalar& value) const&&;

  bool defined() const { return impl_ != nullptr; }
  explicit operator bool() const { return defined(); }

  int64_t dim() const;
  Ints sizes() const;
  Ints strides() const;  // in elements
  int64_t size(int64_t dim) const;
  int64_t stride(int64_t dim) const;
  int64_t numel() const;
  int64_t offset() const;  // of the first element in the storage, in elements
  DType dtype() const;
  Device device() const;
  bool is_contiguous() const;
  const std::shared_ptr<Storage>& storage() const;
  uint64_t version() const;

  /// First element; nullptr when there is none.
  void* raw_data() const;
  /// As raw_data, checked against the dtype.
  template <typename T>
  T* data() const {
    require_dtype(dtype_of<T>);
    return static_cast<T*>(raw_data());
  }
  /// The only element, converted (integers exactly); an error unless numel() is 1.
  template <typename T = double>
  T item() const {
    check_item();
    return to_vector<T>()[0];
  }
  /// All elements in row-major order, converted (integers exactly).
  template <typename T = double>
  std::vector<T> to_vector() const {
    if constexpr (std::is_integral_v<T>) {
      const std::vector<int64_t> values = to_integers();
      return std::vector<T>(values.begin(), values.end());
    } else {
      const std::vector<double> values = to_doubles();
      return std::vector<T>(values.begin(), values.end());
    }
  }

  // Gradients (deckle/autograd/tensor_methods.cpp).
  bool requires_grad() const;
  const Tensor& requires_grad_(bool value = true) const;
  bool is_leaf() const;
  Tensor grad() const;
  void set_grad(const Tensor& gradient) const;
  /// Adds d self / d leaf to the grad() of every leaf; `gradient` defaults to 1 for a single element.
  void backward(const Tensor& gradient = {}, bool retain_graph = false, bool create_graph = false) const;
  /// A tensor on the same storage without history or tangents.
  Tensor detach() const;

  /// Views and selections, NumPy's basic and advanced indexing: x.index({slice(1, -1), ellipsis, newaxis, mask, indices});
  /// see deckle/ops/indexing.h. Gradients flow.
  Tensor index(std::initializer_list<Index> indices) const;
  /// A copy with `values` (broadcast) written, or added, where `indices` say.
  Tensor index_put(std::initializer_list<Index> indices, const Tensor& values, bool accumulate = false) const;
  /// The same in place.
  const Tensor& index_put_(std::initializer_list<Index> indices, const Tensor& values, bool accumulate = false) const;
  /// The views select(0, i), in order: `for (Tensor row : x)`.
  RowIterator begin() const;
  RowIterator end() const;

  // The curated methods, each the free function of the same name (deckle/ops/tensor_methods.cpp).
  Tensor operator[](int64_t index) const;  // select(0, index)
  Tensor add(const Tensor& other) const;
  Tensor sub(const Tensor& other) const;
  Tensor mul(const Tensor& other) const;
  Tensor div(const Tensor& other) const;
  Tensor matmul(const Tensor& other) const;
  Tensor sum() const;
  Tensor sum(OptionalInts dim, bool keepdim = false) const;
  Tensor mean() const;
  Tensor mean(OptionalInts dim, bool keepdim = false) const;
  Tensor softmax(int64_t dim) const;
  Tensor view(Ints sizes) const;
  Tensor reshape(Ints sizes) const;
  Tensor transpose(int64_t dim0, int64_t dim1) const;
  Tensor t() const;
  Tensor permute(Ints dims) const;
  Tensor expand(Ints sizes) const;
  Tensor select(int64_t dim, int64_t index) const;
  Tensor slice(int64_t dim, int64_t start, int64_t end, int64_t step = 1) const;
  Tensor squeeze(int64_t dim) const;
  Tensor unsqueeze(int64_t dim) const;
  Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1) const;
  Tensor contiguous() const;
  Tensor clone() const;
  Tensor to(DType dtype) const;
  const Tensor& copy_(const Tensor& source) const;
  const Tensor& zero_() const;
  const Tensor& fill_(const Scalar& value) const;
  const Tensor& add_(const Tensor& other) const;
  const Tensor& mul_(const Tensor& other) const;

  TensorImpl* impl() const { return impl_.get(); }
  const std::shared_ptr<TensorImpl>& shared_impl() const { return impl_; }
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

 private:
  void require_dtype(DType dtype) const;
  void check_item() const;
  std::vector<double> to_doubles() const;
  std::vector<int64_t> to_integers() const;

  std::shared_ptr<TensorImpl> impl_;
};

/// A read-only list of tensors as an argument: from {a, b}, one tensor or a vector. Never store one.
class TensorList : public std::span<const Tensor> {
 public:
  using std::span<const Tensor>::span;
  TensorList(const Tensor& tensor) : std::span<const Tensor>(&tensor, 1) {}
  TensorList(std::span<const Tensor> tensors) : std::span<const Tensor>(tensors) {}
  TensorList(std::initializer_list<Tensor> tensors) : std::span<const Tensor>(tensors.begin(), tensors.size()) {}
  TensorList(const std::vector<Tensor>& tensors) : std::span<const Tensor>(tensors) {}
};

// Operators on tensors and numbers (deckle/ops/tensor_methods.cpp).
Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator+(const Tensor& a, const Scalar& b);
Tensor operator-(const Tensor& a, const Scalar& b);
Tensor operator*(const Tensor& a, const Scalar& b);
Tensor operator/(const Tensor& a, const Scalar& b);
Tensor operator+(const Scalar& a, const Tensor& b);
Tensor operator-(const Scalar& a, const Tensor& b);
Tensor operator*(const Scalar& a, const Tensor& b);
Tensor operator/(const Scalar& a, const Tensor& b);
Tensor operator-(const Tensor& a);

// In place, as add_, sub_, mul_ and div_.
const Tensor& operator+=(const Tensor& a, const Tensor& b);
const Tensor& operator-=(const Tensor& a, const Tensor& b);
const Tensor& operator*=(const Tensor& a, const Tensor& b);
const Tensor& operator/=(const Tensor& a, const Tensor& b);
const Tensor& operator+=(const Tensor& a, const Scalar& b);
const Tensor& operator-=(const Tensor& a, const Scalar& b);
const Tensor& operator*=(const Tensor& a, const Scalar& b);
const Tensor& operator/=(const Tensor& a, const Scalar& b);

// Element by element; bool tensors. Two handles of one tensor: is_same.
Tensor operator==(const Tensor& a, const Tensor& b);
Tensor operator!=(const Tensor& a, const Tensor& b);
Tensor operator<(const Tensor& a, const Tensor& b);
Tensor operator<=(const Tensor& a, const Tensor& b);
Tensor operator>(const Tensor& a, const Tensor& b);
Tensor operator>=(const Tensor& a, const Tensor& b);
Tensor operator==(const Tensor& a, const Scalar& b);
Tensor operator!=(const Tensor& a, const Scalar& b);
Tensor operator<(const Tensor& a, const Scalar& b);
Tensor operator<=(const Tensor& a, const Scalar& b);
Tensor operator>(const Tensor& a, const Scalar& b);
Tensor operator>=(const Tensor& a, const Scalar& b);
Tensor operator==(const Scalar& a, const Tensor& b);
Tensor operator!=(const Scalar& a, const Tensor& b);
Tensor operator<(const Scalar& a, const Tensor& b);
Tensor operator<=(const Scalar& a, const Tensor& b);
Tensor operator>(const Scalar& a, const Tensor& b);
Tensor operator>=(const Scalar& a, const Tensor& b);

// Logical, of bool tensors. `!x` asks whether x is undefined.
Tensor operator&(const Tensor& a, const Tensor& b);
Tensor operator|(const Tensor& a, const Tensor& b);
Tensor operator^(const Tensor& a, const Tensor& b);
Tensor operator~(const Tensor& a);

/// "Tensor[4, 7] float32" and a readable excerpt of the values.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);
std::ostream& operator<<(std::ostream& stream, DType dtype);
std::ostream& operator<<(std::ostream& stream, Device device);

/// Walks the first dim of a tensor: `for (Tensor row : x)`.
class RowIterator {
 public:
  using value_type = Tensor;
  using difference_type = int64_t;
  using reference = Tensor;
  using pointer = void;
  using iterator_category = std::input_iterator_tag;

  RowIterator() = default;
  RowIterator(Tensor tensor, int64_t row) : tensor_(std::move(tensor)), row_(row) {}
  Tensor operator*() const { return tensor_[row_]; }
  RowIterator& operator++() {
    ++row_;
    return *this;
  }
  RowIterator operator++(int) { return {tensor_, row_++}; }
  friend bool operator==(const RowIterator& a, const RowIterator& b) { return a.row_ == b.row_; }

 private:
  Tensor tensor_;
  int64_t row_ = 0;
};

}  // namespace deckle
