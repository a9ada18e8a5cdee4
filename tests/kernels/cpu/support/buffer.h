#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "deckle/kernels/args/view.h"
#include "tests/support/seed.h"

namespace deckle::testing {

inline std::mt19937_64& engine() {
  static std::mt19937_64 engine(seed());
  return engine;
}

inline double load(const void* data, DType dtype, int64_t index) {
  return visit(dtype, [&]<typename T>(TypeTag<T>) { return static_cast<double>(static_cast<const T*>(data)[index]); });
}

inline void store(void* data, DType dtype, int64_t index, double value) {
  visit(dtype, [&]<typename T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
      static_cast<T*>(data)[index] = T(static_cast<float>(value));
    } else {
      static_cast<T*>(data)[index] = static_cast<T>(value);
    }
  });
}

/// Memory with a view on it; the view may be permuted, sliced or broadcast afterwards.
struct Buffer {
  std::vector<std::max_align_t> memory;
  View view;

  Buffer(std::vector<int64_t> sizes, DType dtype) {
    view.dtype = dtype;
    view.defined = true;
    view.ndim = static_cast<int>(sizes.size());
    int64_t count = 1;
    for (int dim = view.ndim - 1; dim >= 0; --dim) {
      view.sizes[dim] = sizes[static_cast<size_t>(dim)];
      view.strides[dim] = count;
      count *= std::max<int64_t>(view.sizes[dim], 1);
    }
    memory.resize(static_cast<size_t>(count * item_size(dtype)) / sizeof(std::max_align_t) + 1);
    view.data = view.numel() > 0 ? memory.data() : nullptr;
  }
  Buffer(Buffer&&) = default;
  Buffer(const Buffer&) = delete;

  /// Swaps two dims of the view.
  Buffer&& transposed(int a, int b) && {
    std::swap(view.sizes[a], view.sizes[b]);
    std::swap(view.strides[a], view.strides[b]);
    return std::move(*this);
  }
};

/// All elements of a view in row-major order, as float64.
inline std::vector<double> values(const View& view) {
  std::vector<double> result;
  const int64_t count = view.numel();
  result.reserve(static_cast<size_t>(count));
  std::vector<int64_t> index(static_cast<size_t>(view.ndim), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t offset = 0;
    for (int dim = 0; dim < view.ndim; ++dim) offset += index[static_cast<size_t>(dim)] * view.strides[dim];
    result.push_back(load(view.data, view.dtype, offset));
    for (int dim = view.ndim - 1; dim >= 0; --dim) {
      if (++index[static_cast<size_t>(dim)] < view.sizes[dim]) break;
      index[static_cast<size_t>(dim)] = 0;
    }
  }
  return result;
}

/// Every byte of the memory, for bit-equality.
inline std::vector<unsigned char> bytes(const Buffer& buffer) {
  const auto* start = reinterpret_cast<const unsigned char*>(buffer.memory.data());
  return {start, start + buffer.view.numel() * item_size(buffer.view.dtype)};
}

inline Buffer random_normal(std::vector<int64_t> sizes, DType dtype) {
  Buffer buffer(std::move(sizes), dtype);
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < buffer.view.numel(); ++i) store(buffer.view.data, dtype, i, normal(engine()));
  return buffer;
}

/// Uniform integers in [low, high).
inline Buffer random_integers(std::vector<int64_t> sizes, DType dtype, int64_t low, int64_t high) {
  Buffer buffer(std::move(sizes), dtype);
  std::uniform_int_distribution<int64_t> uniform(low, high - 1);
  for (int64_t i = 0; i < buffer.view.numel(); ++i) store(buffer.view.data, dtype, i, static_cast<double>(uniform(engine())));
  return buffer;
}

/// Results start as NaN (integers: 0x7f bytes), to detect elements that a kernel did not write.
inline Buffer poisoned(std::vector<int64_t> sizes, DType dtype) {
  Buffer buffer(std::move(sizes), dtype);
  std::memset(buffer.memory.data(), is_floating(dtype) ? 0xff : 0x7f, buffer.memory.size() * sizeof(std::max_align_t));
  return buffer;
}

/// Unit roundoff of `dtype`: half a unit of the last place.
inline double unit_roundoff(DType dtype) {
  return dtype == DType::float64 ? 0x1p-53 : dtype == DType::float32 ? 0x1p-24 : dtype == DType::float16 ? 0x1p-11 : 0x1p-8;
}

/// How far a kernel may be from a float64 reference, relative to the largest of the terms it adds up: `steps` roundings in the
/// type that it computes in (float for the halves), one where the result is stored, and `reference_steps` of the reference.
inline double rounding_bound(DType dtype, double steps, double reference_steps = 8) {
  return steps * unit_roundoff(dtype == DType::float64 ? dtype : DType::float32) + unit_roundoff(dtype) +
         reference_steps * 0x1p-53;
}

/// |got - want| <= tolerance * scale, element by element; NaN equals NaN.
inline void expect_close(const View& got, const std::vector<double>& want, double tolerance, double scale = 1.0) {
  const std::vector<double> have = values(got);
  ASSERT_EQ(have.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(have[i])) continue;
    if (have[i] == want[i]) continue;
    ASSERT_LE(std::abs(have[i] - want[i]), tolerance * std::max(scale, std::abs(want[i])))
        << "element " << i << ": got " << have[i] << ", want " << want[i];
  }
}

}  // namespace deckle::testing
