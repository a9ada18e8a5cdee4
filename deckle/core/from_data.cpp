#include "deckle/core/from_data.h"

#include <algorithm>
#include <cstring>

#include "deckle/base/check.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/strides.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::detail {

Tensor copy_of(const void* data, IntSpan sizes, DType dtype) {
  const Device device = factory_device();
  const Tensor result = empty(sizes, dtype, device);
  const int64_t bytes = result.numel() * item_size(dtype);
  if (device.is_cuda())
    cuda::copy_bytes(address(result), device, data, {}, bytes);
  else if (bytes > 0)
    std::memcpy(address(result), data, static_cast<size_t>(bytes));
  return result;
}

void require_length(int64_t length, int64_t expected) {
  call_as("tensor", [&] {
    check(length == expected,
          "a row of {} values beside one of {} (expected as many; NestedTensor takes rows of different lengths)", length,
          expected);
  });
}

Tensor of_mixed(std::span<const MixedNumber> numbers, IntSpan sizes) {
  DType dtype = numbers.empty() ? DType::float32 : DType::bool_;
  for (const MixedNumber& each : numbers) dtype = std::max(dtype, each.dtype);
  return visit(dtype, [&]<typename T>(TypeTag<T>) {
    std::vector<Element<T>> values;
    for (const MixedNumber& each : numbers) {
      if constexpr (std::is_integral_v<T>)
        values.push_back(static_cast<Element<T>>(each.number.to_int64()));
      else
        values.push_back(static_cast<T>(each.number.to_double()));
    }
    return copy_of(values.data(), sizes, dtype);
  });
}

Tensor borrow(void* data, IntSpan sizes, IntSpan strides, DType dtype, std::function<void()> release) try {
  check(sizes.size() == strides.size(), "shape {} has other dims than strides {} (expected as many)", sizes, strides);
  int64_t elements = numel_of(sizes) == 0 ? 0 : 1;  // up to the last one
  for (size_t dim = 0; dim < sizes.size() && elements > 0; ++dim) {
    int64_t extent = 0;
    check(strides[dim] >= 0, "strides {} must not be negative (expected 0 or more)", strides);
    check(!__builtin_mul_overflow(sizes[dim] - 1, strides[dim], &extent) && !__builtin_add_overflow(elements, extent, &elements),
          "shape {} with strides {} overflows 64 bits", sizes, strides);
  }
  int64_t bytes = 0;
  check(!__builtin_mul_overflow(elements, item_size(dtype), &bytes), "shape {} with strides {} overflows 64 bits", sizes,
        strides);
  check(data != nullptr || bytes == 0, "no memory for shape {} (expected a pointer to its elements)", sizes);
  if (!release) release = [] {};
  return make_tensor(std::make_shared<Storage>(data, bytes, Device{}, std::move(release)), sizes,
                     bounded_strides(strides, elements), 0, dtype);
} catch (...) {
  rethrow_from("from_blob");
}

}  // namespace deckle::detail
