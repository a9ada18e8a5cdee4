#pragma once

#include <concepts>
#include <initializer_list>
#include <iosfwd>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "deckle/base/device.h"
#include "deckle/base/dtype.h"
#include "deckle/core/dims.h"
#include "deckle/core/generated/method_types.h"
#include "deckle/core/scalar.h"
#include "deckle/core/storage.h"

// `x[1, 2]` is x[2] in C++20: the comma drops what stands left of it. An error, as it is in C++23 of what takes one index.
#ifndef __cpp_multidimensional_subscript
#if defined(__clang__)
#pragma clang diagnostic error "-Wdeprecated-comma-subscript"
#elif defined(__GNUC__)
#pragma GCC diagnostic error "-Wcomma-subscript"
#endif
#endif

namespace deckle {

struct TensorImpl;
class Index;
struct Slice;
template <typename Rows>
class RowIterator;
class IndexedTensor;
/// What chooses a view of one dim.
template <typename T>
concept ViewIndex = Integer<T> || std::same_as<T, Slice>;

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

  /// `x = y` makes x another handle of y's tensor. A number is none.
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  template <typename T>
  requires std::is_arithmetic_v<T> Tensor& operator=(T) & = delete;  // write x.fill_(1.0), or x = tensor(1.0) for another tensor
  /// `x[0] = y`, an assignment to a view that has no name, writes y's elements (broadcast) into it, as copy_ does. An Error where
  /// nothing else holds what is written to, as in `(x + y) = 1`.
  const Tensor& operator=(const Tensor& source) const&&;
  const Tensor& operator=(const Scalar& value) const&&;

  bool defined() const { return impl_ != nullptr; }
  explicit operator bool() const = delete;  // an if takes one bool: x.item<bool>(), x.all().item<bool>() or x.defined()
  template <typename T>
  requires(std::is_arithmetic_v<T> && !std::same_as<T, bool>) explicit operator T() const = delete;  // write x.item()

  int64_t dim() const;
  int64_t ndim() const { return dim(); }
  // What the tensor keeps; of a temporary, whose end a reference would outlive, a copy.
  const Dims& sizes() const&;
  const Dims& shape() const& { return sizes(); }
  const Dims& size() const& { return sizes(); }
  const Dims& strides() const&;  // in elements
  Dims sizes() const&& { return sizes(); }
  Dims shape() const&& { return sizes(); }
  Dims size() const&& { return sizes(); }
  Dims strides() const&& { return strides(); }
  int64_t size(IntArg dim) const;
  int64_t stride(IntArg dim) const;
  int64_t numel() const;
  int64_t offset() const;  // of the first element in the storage, in elements
  int64_t element_size() const { return item_size(dtype()); }
  int64_t nbytes() const { return numel() * element_size(); }
  DType dtype() const;
  Device device() const;
  bool is_floating_point() const { return is_floating(dtype()); }
  bool is_contiguous() const;
  const std::shared_ptr<Storage>& storage() const;
  uint64_t version() const;

  /// First element, in the host's memory; nullptr when there is none. Throws on a tensor that lives elsewhere.
  void* raw_data() const;
  /// As raw_data, checked against the dtype.
  template <typename T>
  T* data() const {
    require_dtype(dtype_of<T>);
    return static_cast<T*>(raw_data());
  }
  /// The only element, converted as by to_vector; an error unless numel() is 1.
  template <typename T = double>
  T item() const {
    check_item();
    return to_vector<T>()[0];
  }
  /// All elements in row-major order, converted: to integers truncated, an error where T does not hold the integer; to bool
  /// whether they are not 0.
  template <typename T = double>
  std::vector<T> to_vector() const {
    if constexpr (std::same_as<T, bool>) {
      return to_bools();
    } else if constexpr (std::is_integral_v<T>) {
      const std::vector<int64_t> values = to_integers(numbers_of<T>());
      return std::vector<T>(values.begin(), values.end());
    } else {
      const std::vector<double> values = to_doubles();
      return std::vector<T>(values.begin(), values.end());
    }
  }

  // Gradients (deckle/autograd/tensor_methods.cpp).
  bool requires_grad() const;
  Tensor requires_grad_(BoolArg value = true) const;
  bool is_leaf() const;
  Tensor grad() const;
  void set_grad(const Tensor& gradient) const;
  /// Adds d self / d leaf to the grad() of every leaf; `gradient` defaults to 1 for a single element.
  void backward(const Tensor& gradient = {}, BoolArg retain_graph = false, BoolArg create_graph = false) const;
  struct BackwardOptions {
    bool retain_graph = false, create_graph = false;
  };
  /// `loss.backward({.retain_graph = true})`.
  void backward(const BackwardOptions& options) const { backward(Tensor(), options.retain_graph, options.create_graph); }
  /// The same values on a device; the tensor itself if it is there. Gradients flow back to where it was.
  Tensor to(Device device) const&;
  Tensor to(Device device) &&;
  Tensor to(const char* /* not a text: x.to(Device::cuda()), x.to(DType::float64) */) const = delete;
  Tensor to(const Tensor&) const = delete;  // write x.to(y.dtype()) or x.to(y.device())
  Tensor cuda() const = delete;             // write x.to(Device::cuda())
  Tensor cpu() const = delete;              // write x.to(Device{})
  Tensor numpy() const = delete;            // write x.to_vector<float>(), or read x.data<float>()
  Tensor tolist() const = delete;           // write x.to_vector<float>()
  /// A tensor on the same storage without history or tangents.
  Tensor detach() const&;
  Tensor detach() &&;

  /// Views and selections, NumPy's basic and advanced indexing: x.index({slice(1, -1), ellipsis, newaxis, mask, indices});
  /// see deckle/ops/indexing.h. Gradients flow.
  Tensor index(std::initializer_list<Index> indices) const&;
  Tensor index(std::initializer_list<Index> indices) &&;
  /// A copy with `values` (broadcast) written, or added, where `indices` say.
  Tensor index_put(std::initializer_list<Index> indices, const Tensor& values, BoolArg accumulate = false) const;
  /// The same in place.
  Tensor index_put_(std::initializer_list<Index> indices, const Tensor& values, BoolArg accumulate = false) const;
  Tensor index_put_(std::initializer_list<Index> indices, const Scalar& value, BoolArg accumulate = false) const;
  /// The views select(0, i), in order: `for (Tensor row : x)`.
  RowIterator<Tensor> begin() const;
  RowIterator<Tensor> end() const;

  /// select(0, index). What is assigned to a row of a temporary, as in `x[mask][0] = 9`, is an Error: see operator=.
  Tensor operator[](IntArg index) const&;
  Tensor operator[](IntArg index) &&;
  /// A view of rows: x[slice(1, -1)]. A template, so that x[{1, 2}] is no slice but an error.
  template <std::same_as<Slice> S>
  Tensor operator[](const S& range) const&;
  template <std::same_as<Slice> S>
  Tensor operator[](const S& range) &&;
#ifdef __cpp_multidimensional_subscript
  /// C++23: x[1, 2], x[slice(), 0], views. Before, a comma in brackets drops what stands left of it, which is an error above.
  template <ViewIndex First, ViewIndex... More>
  requires(sizeof...(More) > 0) Tensor operator[](First first, More... more) const { return index({first, more...}); }
#endif
  /// The rows that a bool mask or indices choose, a copy; what is assigned to it is written into this tensor.
  IndexedTensor operator[](const Tensor& index) const&;
  IndexedTensor operator[](const Tensor& index) &&;

  /// Whether all elements are close, or the same; see deckle/ops/compare.h.
  bool allclose(const Tensor& other, FloatArg rtol = 1e-5, FloatArg atol = 1e-8, BoolArg equal_nan = false) const;
  bool equal(const Tensor& other) const;

  /// The views select(dim, i), in order.
  std::vector<Tensor> unbind(IntArg dim = 0) const;
  /// All dims reversed, and the last two swapped; views.
  Tensor T() const&;
  Tensor T() &&;
  Tensor mT() const&;
  Tensor mT() &&;
  template <std::same_as<bool> B>
  Tensor var(OptionalInts, B) const = delete;  // options have names: x.var(0, {.correction = 0})
  template <std::same_as<bool> B>
  Tensor std(OptionalInts, B) const = delete;  // options have names: x.std(0, {.correction = 0})
  template <std::same_as<bool> B>
  ValuesIndices<Tensor> sort(IntArg, B) const = delete;  // options have names: x.sort(0, {.descending = true})
  template <std::same_as<bool> B>
  ValuesIndices<Tensor> topk(IntArg, IntArg, B) const = delete;  // options have names: x.topk(2, 0, {.largest = false})
  Tensor clamp(const Scalar&) const = delete;                    // one bound: x.clamp_min(0) or x.clamp_max(1)

  // Ops that have `self` first and are methods of torch.Tensor or numpy.ndarray, each the free function of the same name. Those
  // that show elements of self have an overload for a temporary: as brackets do, it takes the handle.
#include "deckle/core/generated/tensor_methods.h"

  TensorImpl* impl() const { return impl_.get(); }
  const std::shared_ptr<TensorImpl>& shared_impl() const { return impl_; }
  bool is_same(const Tensor& other) const { return impl_ == other.impl_; }

 private:
  void require_dtype(DType dtype) const;
  void check_item() const;
  struct Range {
    int64_t low, high;
  };
  template <typename T>
  static constexpr Range numbers_of() {
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    return {static_cast<int64_t>(std::numeric_limits<T>::min()),
            std::in_range<int64_t>(std::numeric_limits<T>::max()) ? static_cast<int64_t>(std::numeric_limits<T>::max()) : most};
  }
  std::vector<double> to_doubles() const;
  std::vector<int64_t> to_integers(Range range) const;
  std::vector<bool> to_bools() const;

  std::shared_ptr<TensorImpl> impl_;
};

/// `x[mask]` and `x[indices]`: the elements chosen, as a tensor of their own, and where they came from. Written with `=`, `+=`
/// or another of these where it stands, it writes into x; every other use reads the copy, which is also what a name for it means.
class IndexedTensor : public Tensor {
 public:
  IndexedTensor(Tensor values, Tensor base, Tensor index)
      : Tensor(std::move(values)), base_(std::move(base)), index_(std::move(index)) {}
  IndexedTensor(const IndexedTensor&) = default;
  void write(const Tensor& source) const;
  const IndexedTensor& operator=(const Tensor& source) const&&;
  const IndexedTensor& operator=(const Scalar& value) const&&;
  /// A name for it is a tensor: `auto s = x[mask]; s = s * 2;` leaves x as it is.
  IndexedTensor& operator=(const Tensor& other) & {
    Tensor::operator=(other);
    return *this;
  }
  IndexedTensor& operator=(const IndexedTensor& other) & { return *this = static_cast<const Tensor&>(other); }
  template <typename T>
  requires std::is_arithmetic_v<T> IndexedTensor& operator=(T) & = delete;  // write x.fill_(1.0)
  const IndexedTensor& operator=(const IndexedTensor& source) const&& {
    return std::move(*this) = static_cast<const Tensor&>(source);
  }

 private:
  Tensor base_, index_;
};

/// A read-only list of tensors as an argument: from {a, b}, one tensor or a vector. It holds what has no name, the tensors in
/// braces or a temporary vector, and shows what has one.
class TensorList : public std::span<const Tensor> {
 public:
  using std::span<const Tensor>::span;
  TensorList(const Tensor& tensor) : std::span<const Tensor>(&tensor, 1) {}
  TensorList(Tensor&& tensor);
  TensorList(std::span<const Tensor> tensors) : std::span<const Tensor>(tensors) {}
  TensorList(std::initializer_list<Tensor> tensors);
  TensorList(const std::vector<Tensor>& tensors) : std::span<const Tensor>(tensors) {}
  TensorList(std::vector<Tensor>&& tensors);

 private:
  std::shared_ptr<const std::vector<Tensor>> held_;
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
inline Tensor operator+(const Tensor& a) { return a; }
// As remainder: with the sign of b, as in Python.
Tensor operator%(const Tensor& a, const Tensor& b);
Tensor operator%(const Tensor& a, const Scalar& b);
Tensor operator%(const Scalar& a, const Tensor& b);

// In place, as add_, sub_, mul_, div_ and remainder_.
Tensor operator+=(const Tensor& a, const Tensor& b);
Tensor operator-=(const Tensor& a, const Tensor& b);
Tensor operator*=(const Tensor& a, const Tensor& b);
Tensor operator/=(const Tensor& a, const Tensor& b);
Tensor operator+=(const Tensor& a, const Scalar& b);
Tensor operator-=(const Tensor& a, const Scalar& b);
Tensor operator*=(const Tensor& a, const Scalar& b);
Tensor operator/=(const Tensor& a, const Scalar& b);
Tensor operator%=(const Tensor& a, const Tensor& b);
Tensor operator%=(const Tensor& a, const Scalar& b);

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

// Of the bits of integers, of bool tensors logical; there are no && and ||, which compilers stop at the first bool.
Tensor operator&(const Tensor& a, const Tensor& b);
Tensor operator|(const Tensor& a, const Tensor& b);
Tensor operator^(const Tensor& a, const Tensor& b);
Tensor operator&(const Tensor& a, const Scalar& b);
Tensor operator|(const Tensor& a, const Scalar& b);
Tensor operator^(const Tensor& a, const Scalar& b);
Tensor operator&(const Scalar& a, const Tensor& b);
Tensor operator|(const Scalar& a, const Tensor& b);
Tensor operator^(const Scalar& a, const Tensor& b);
Tensor operator&=(const Tensor& a, const Tensor& b);
Tensor operator|=(const Tensor& a, const Tensor& b);
Tensor operator^=(const Tensor& a, const Tensor& b);
Tensor operator&=(const Tensor& a, const Scalar& b);
Tensor operator|=(const Tensor& a, const Scalar& b);
Tensor operator^=(const Tensor& a, const Scalar& b);
Tensor operator<<(const Tensor& a, const Tensor& b);
Tensor operator<<(const Tensor& a, const Scalar& b);
Tensor operator>>(const Tensor& a, const Tensor& b);
Tensor operator>>(const Tensor& a, const Scalar& b);
Tensor operator<<=(const Tensor& a, const Tensor& b);
Tensor operator<<=(const Tensor& a, const Scalar& b);
Tensor operator>>=(const Tensor& a, const Tensor& b);
Tensor operator>>=(const Tensor& a, const Scalar& b);
Tensor operator~(const Tensor& a);

namespace detail {
/// What `a op= b` may write to: itself. An Error if it is a temporary that nothing else holds.
const Tensor& writable(const Tensor& temporary);
inline const Tensor& writable(const IndexedTensor& chosen) { return chosen; }
inline void written(const Tensor&) {}
void written(const IndexedTensor& chosen);
}  // namespace detail

/// `x[0] += y` writes into x, as does `x[mask] += y`.
template <typename T>
concept TemporaryTensor = std::same_as<T, Tensor> || std::same_as<T, IndexedTensor>;
template <TemporaryTensor T, typename B>
Tensor operator+=(T&& a, const B& b) {
  const Tensor& result = detail::writable(a) += b;
  detail::written(a);
  return result;
}
template <TemporaryTensor T, typename B>
Tensor operator-=(T&& a, const B& b) {
  const Tensor& result = detail::writable(a) -= b;
  detail::written(a);
  return result;
}
template <TemporaryTensor T, typename B>
Tensor operator*=(T&& a, const B& b) {
  const Tensor& result = detail::writable(a) *= b;
  detail::written(a);
  return result;
}
template <TemporaryTensor T, typename B>
Tensor operator/=(T&& a, const B& b) {
  const Tensor& result = detail::writable(a) /= b;
  detail::written(a);
  return result;
}
template <TemporaryTensor T, typename B>
Tensor operator%=(T&& a, const B& b) {
  const Tensor& result = detail::writable(a) %= b;
  detail::written(a);
  return result;
}
template <TemporaryTensor T, typename B>
Tensor operator&=(T&& a, const B& b) {
  const Tensor& result = detail::writable(a) &= b;
  detail::written(a);
  return result;
}
template <TemporaryTensor T, typename B>
Tensor operator|=(T&& a, const B& b) {
  const Tensor& result = detail::writable(a) |= b;
  detail::written(a);
  return result;
}
template <TemporaryTensor T, typename B>
Tensor operator^=(T&& a, const B& b) {
  const Tensor& result = detail::writable(a) ^= b;
  detail::written(a);
  return result;
}
template <TemporaryTensor T, typename B>
Tensor operator<<=(T&& a, const B& b) {
  const Tensor& result = detail::writable(a) <<= b;
  detail::written(a);
  return result;
}
template <TemporaryTensor T, typename B>
Tensor operator>>=(T&& a, const B& b) {
  const Tensor& result = detail::writable(a) >>= b;
  detail::written(a);
  return result;
}

/// "Tensor[4, 7] float32" and a readable excerpt of the values.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);
std::ostream& operator<<(std::ostream& stream, IntSpan sizes);
std::ostream& operator<<(std::ostream& stream, DType dtype);
std::ostream& operator<<(std::ostream& stream, Device device);

/// Walks the first dim: `for (Tensor row : x)`.
template <typename Rows>
class RowIterator {
 public:
  using value_type = Tensor;
  using difference_type = int64_t;
  using reference = Tensor;
  using pointer = void;
  using iterator_category = std::input_iterator_tag;

  RowIterator() = default;
  RowIterator(Rows tensor, int64_t row) : tensor_(std::move(tensor)), row_(row) {}
  Tensor operator*() const { return tensor_[row_]; }
  RowIterator& operator++() {
    ++row_;
    return *this;
  }
  RowIterator operator++(int) { return {tensor_, row_++}; }
  friend bool operator==(const RowIterator& a, const RowIterator& b) { return a.row_ == b.row_; }

 private:
  Rows tensor_;
  int64_t row_ = 0;
};

}  // namespace deckle

/// As to_string.
template <>
struct fmt::formatter<deckle::Tensor> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  format_context::iterator format(const deckle::Tensor& tensor, format_context& context) const;
};
template <>
struct fmt::formatter<deckle::DType> : formatter<string_view> {
  format_context::iterator format(deckle::DType dtype, format_context& context) const;
};
template <>
struct fmt::formatter<deckle::Device> : formatter<string_view> {
  format_context::iterator format(deckle::Device device, format_context& context) const;
};
