#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "deckle/core/tensor.h"

/// Tensors from the caller's data. Elements are of any dtype's C++ type: float, double, int64_t, int32_t, uint8_t, bool,
/// float16, bfloat16.
namespace deckle {

namespace detail {
Tensor copy_of(const void* data, int64_t count, DType dtype);
Tensor borrow(void* data, Ints sizes, Ints strides, DType dtype, std::function<void()> release);
}  // namespace detail

/// A tensor [n] with a copy of these values; give it another shape by view().
template <typename T>
Tensor tensor(std::span<const T> values) {
  return detail::copy_of(values.data(), static_cast<int64_t>(values.size()), dtype_of<T>);
}
template <typename T>
Tensor tensor(const std::vector<T>& values) {
  return tensor(std::span<const T>(values));
}
template <typename T>
Tensor tensor(std::initializer_list<T> values) {
  return tensor(std::span<const T>(values.begin(), values.size()));
}

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
