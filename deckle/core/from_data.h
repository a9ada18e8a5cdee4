#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <span>
#include <type_traits>
#include <vector>

#include "deckle/core/tensor.h"

/// Tensors from the caller's data. Elements are of any dtype's C++ type: float, double, int64_t, int32_t, uint8_t, bool,
/// float16, bfloat16.
namespace deckle {

namespace detail {
Tensor copy_of(const void* data, IntSpan sizes, DType dtype);
/// A row of a nested list must be as long as the first.
void require_length(int64_t length, int64_t expected);
/// bool in the memory of a std::vector, which would pack its bits.
template <typename T>
using Element = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
/// One of numbers of several types in braces.
struct MixedNumber {
  template <typename T>
  requires(std::is_arithmetic_v<T>&& kHasDType<T>) MixedNumber(T value) : number(value), dtype(dtype_of<T>) {}

  Scalar number;
  DType dtype;
};
Tensor of_mixed(std::span<const MixedNumber> numbers, IntSpan sizes);
Tensor borrow(void* data, IntSpan sizes, IntSpan strides, DType dtype, std::function<void()> release);
}  // namespace detail

/// A tensor [n] with a copy of these values; give it another shape by view().
template <typename T>
Tensor tensor(std::span<const T> values) {
  return detail::copy_of(values.data(), static_cast<int64_t>(values.size()), dtype_of<T>);
}
template <typename T>
requires(!std::same_as<T, bool>) Tensor tensor(const std::vector<T>& values) { return tensor(std::span<const T>(values)); }
/// The same of an array, a std::array, a std::span, or whatever else keeps its elements side by side.
template <typename R>
requires requires(const R& values) {
  std::size(values);
  detail::DTypeOf<std::remove_cvref_t<decltype(*std::data(values))>>::value;
}
Tensor tensor(const R& values) {
  using T = std::remove_cvref_t<decltype(*std::data(values))>;
  return tensor(std::span<const T>(std::data(values), std::size(values)));
}
/// std::vector packs bools.
template <std::same_as<std::vector<bool>> Bools>
Tensor tensor(const Bools& values) {
  const std::vector<uint8_t> bytes(values.begin(), values.end());
  return detail::copy_of(bytes.data(), static_cast<int64_t>(bytes.size()), DType::bool_);
}
template <typename T>
Tensor tensor(std::initializer_list<T> values) {
  return tensor(std::span<const T>(values.begin(), values.size()));
}
/// A tensor without dims that holds one number: tensor(3.0f).
template <typename T>
requires std::is_arithmetic_v<T> Tensor tensor(T value) { return detail::copy_of(&value, {}, dtype_of<T>); }
/// A matrix by its rows, of equal lengths: tensor({{1.0f, 2.0f}, {3.0f, 4.0f}}).
template <typename T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows) {
  const Dims sizes = {static_cast<int64_t>(rows.size()), rows.size() > 0 ? static_cast<int64_t>(rows.begin()->size()) : 0};
  std::vector<detail::Element<T>> values;
  for (const std::initializer_list<T>& row : rows) {
    detail::require_length(static_cast<int64_t>(row.size()), sizes[1]);
    values.insert(values.end(), row.begin(), row.end());
  }
  return detail::copy_of(values.data(), sizes, dtype_of<T>);
}
/// Matrices of equal shapes. It is the overload that tensor<float>({}) and ({{}, {}}) mean: [0] and [2, 0], without the dims that
/// no brace shows.
template <typename T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> matrices) {
  Dims sizes = {static_cast<int64_t>(matrices.size())};
  if (matrices.size() > 0) sizes.push_back(static_cast<int64_t>(matrices.begin()->size()));
  if (sizes.back() > 0) sizes.push_back(static_cast<int64_t>(matrices.begin()->begin()->size()));
  std::vector<detail::Element<T>> values;
  for (const std::initializer_list<std::initializer_list<T>>& rows : matrices) {
    detail::require_length(static_cast<int64_t>(rows.size()), sizes[1]);
    for (const std::initializer_list<T>& row : rows) {
      detail::require_length(static_cast<int64_t>(row.size()), sizes[2]);
      values.insert(values.end(), row.begin(), row.end());
    }
  }
  return detail::copy_of(values.data(), sizes, dtype_of<T>);
}

/// Numbers of several types have the dtype that they promote to: tensor({NAN, 1.0}), tensor({{1, 2.5}, {3, 4}}) are float64.
inline Tensor tensor(std::initializer_list<detail::MixedNumber> numbers) {
  return detail::of_mixed({numbers.begin(), numbers.size()}, static_cast<int64_t>(numbers.size()));
}
template <int = 0>  // second to the overload above where both fit: tensor({})
Tensor tensor(std::initializer_list<std::initializer_list<detail::MixedNumber>> rows) {
  const Dims sizes = {static_cast<int64_t>(rows.size()), rows.size() > 0 ? static_cast<int64_t>(rows.begin()->size()) : 0};
  std::vector<detail::MixedNumber> numbers;
  for (const std::initializer_list<detail::MixedNumber>& row : rows) {
    detail::require_length(static_cast<int64_t>(row.size()), sizes[1]);
    numbers.insert(numbers.end(), row.begin(), row.end());
  }
  return detail::of_mixed(numbers, sizes);
}

template <typename T>
Tensor tensor(std::initializer_list<T>, DType) = delete;  // the numbers say the dtype: tensor<float>({1, 2})
template <typename T>
Tensor tensor(std::initializer_list<std::initializer_list<T>>, DType) = delete;  // tensor<float>({{1, 2}, {3, 4}})
template <typename T>
Tensor tensor(const T&, DType) = delete;  // tensor(values).to(DType::float32)

/// A tensor of this shape whose contents are arbitrary, to be written: on the CPU, whatever factories do, unless a device is
/// given.
Tensor empty(Ints sizes, DType dtype = DType::float32, Device device = {});

/// A tensor of this shape on the caller's memory, which must outlive it: `release` runs when the last tensor on it is gone.
/// `strides`, in elements and not negative, are row-major if not given.
template <typename T>
Tensor from_blob(T* data, Ints sizes, std::function<void()> release = {}) {
  return detail::borrow(data, sizes, contiguous_strides(sizes), dtype_of<T>, std::move(release));
}
template <typename T>
Tensor from_blob(T* data, Ints sizes, Ints strides, std::function<void()> release = {}) {
  return detail::borrow(data, sizes, strides, dtype_of<T>, std::move(release));
}

}  // namespace deckle
