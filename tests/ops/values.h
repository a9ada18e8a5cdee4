#pragma once

#include <cstddef>
#include <functional>

#include "deckle/core/tensor.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::suite {

/// A contiguous tensor whose element i, in row-major order, is value(i).
inline Tensor of_values(Ints sizes, DType dtype, const std::function<double(size_t)>& value) {
  const Tensor result = empty(sizes, dtype, {});
  visit(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* data = static_cast<T*>(result.raw_data());
    for (int64_t i = 0; i < result.numel(); ++i) data[i] = static_cast<T>(value(static_cast<size_t>(i)));
  });
  return result;
}

}  // namespace deckle::suite
