#pragma once

#include <vector>

#include "deckle/functional/gradcheck.h"
#include "deckle/nested/nested_tensor.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle::testing {

/// `sizes` is [components, ragged_dims], row-major.
inline NestedTensor random_nested(std::vector<int64_t> sizes, int ragged_dims, Dims regular) {
  const Ragged ragged(std::make_shared<const RaggedShape>(std::move(sizes), ragged_dims));
  regular.insert(regular.begin(), ragged->rows());
  return {random_tensor(regular), ragged};
}

inline NestedTensor random_nested(const std::vector<int64_t>& lengths, const Dims& regular) {
  return random_nested(lengths, 1, regular);
}

/// Components of two ragged dims each, [{rows, columns}, ...].
inline NestedTensor random_matrices(const std::vector<std::pair<int64_t, int64_t>>& sizes, const Dims& regular = {}) {
  std::vector<int64_t> flat;
  for (const auto& [rows, columns] : sizes) flat.insert(flat.end(), {rows, columns});
  return random_nested(flat, 2, regular);
}

/// Integers below `high`, [rows].
inline NestedTensor random_indices(const std::vector<int64_t>& lengths, int64_t high) {
  int64_t rows = 0;
  for (const int64_t length : lengths) rows += length;
  const Tensor values = zeros_raw({rows}, DType::int64, Device());
  for (int64_t i = 0; i < rows; ++i) values.data<int64_t>()[i] = random_integer(0, high - 1);
  return NestedTensor::from_lengths(values.to(factory_device()), lengths);
}

inline Tensor integers(std::initializer_list<int64_t> values, DType dtype = DType::int64) {
  const Tensor result = zeros_raw({static_cast<int64_t>(values.size())}, dtype, Device());
  int64_t i = 0;
  for (const int64_t value : values) {
    if (dtype == DType::int32)
      result.data<int32_t>()[i++] = static_cast<int32_t>(value);
    else
      result.data<int64_t>()[i++] = value;
  }
  return result.to(factory_device());
}

/// A bool vector like `lengths`, each true with probability one half.
inline NestedTensor random_mask(const std::vector<int64_t>& lengths, Dims regular = {}) {
  const NestedTensor like = random_nested(lengths, regular);
  const Tensor values = zeros_raw(like.values().sizes(), DType::bool_, Device());
  for (int64_t i = 0; i < values.numel(); ++i) values.data<bool>()[i] = random_integer(0, 1) == 1;
  return {values.to(factory_device()), like.ragged()};
}

/// got has as many components as `like`, and component b is f(b).
template <typename F>
void expect_components(const NestedTensor& got, int64_t components, F&& f) {
  ASSERT_EQ(got.components(), components);
  for (int64_t b = 0; b < components; ++b) expect_close(got[b], f(b), 1e-12, 1e-12);
}

/// Reverse, forward, and both second orders.
template <typename F, typename X>
void expect_gradients(F&& f, const X& x) {
  gradcheck(f, x);
  forward_gradcheck(f, x);
  gradgradcheck(f, x);
  forward_gradgradcheck(f, x);
}

}  // namespace deckle::testing
