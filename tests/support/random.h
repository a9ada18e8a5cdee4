#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "deckle/core/factory_device.h"
#include "deckle/core/tensor_impl.h"
#include "tests/support/seed.h"

namespace deckle::testing {

inline std::mt19937_64& random_engine() {
  static std::mt19937_64 engine(seed());
  return engine;
}

template <typename T>
T convert(double value) {
  if constexpr (std::is_same_v<T, double>) {
    return value;
  } else {
    return static_cast<T>(static_cast<float>(value));
  }
}

/// Standard normal values, where factories make tensors.
inline Tensor random_tensor(Ints sizes, DType dtype = DType::float64) {
  const Tensor result = empty(sizes, dtype);
  std::normal_distribution<double> normal;
  visit_floating(dtype, [&]<typename T>(TypeTag<T>) {
    for (int64_t i = 0; i < result.numel(); ++i) result.data<T>()[i] = convert<T>(normal(random_engine()));
  });
  return result.to(factory_device());
}

inline int64_t random_integer(int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random_engine());
}

/// A tensor with the given values, where factories make tensors.
inline Tensor tensor_of(std::initializer_list<double> values, DType dtype = DType::float64) {
  const Tensor result = empty({static_cast<int64_t>(values.size())}, dtype);
  visit_floating(dtype, [&]<typename T>(TypeTag<T>) {
    T* out = result.data<T>();
    for (const double value : values) *out++ = convert<T>(value);
  });
  return result.to(factory_device());
}

/// Raggedness that has caught bugs: zero-length components at the edges and inside, one component, all empty, none.
inline std::vector<std::vector<int64_t>> ragged_patterns() {
  return {{3, 0, 5, 1}, {0, 4, 2, 0}, {7}, {0, 0}, {}, {random_integer(0, 9), random_integer(0, 9), random_integer(1, 9)}};
}

}  // namespace deckle::testing
