// What tests of attention's derivatives draw besides a case, and how they compare operands: of the CPU's and of the GPU's
// kernels.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/kernels/cpu/attention/attention_case.h"

namespace deckle::testing {

/// How many combinations a test draws: DECKLE_TEST_COMBINATIONS, or `few`.
inline int combinations(int few) {
  const char* const more = std::getenv("DECKLE_TEST_COMBINATIONS");
  return more != nullptr ? std::atoi(more) : few;
}

/// The element types of the combinations, in turn; the exact ones more often.
inline constexpr DType kDrawnDTypes[] = {DType::float64,  DType::float32, DType::float64,
                                         DType::bfloat16, DType::float32, DType::float16};

inline AttentionCase random_case(Random& random, DType dtype, int64_t longest) {
  AttentionCase c = random_plain_case(random, dtype, longest);
  if (chance(random, 0.8)) add_random_features(random, c);
  return c;
}

/// Takes some of the tangents away, and the same from those of the reference.
inline void drop_some(Random& random, Operands& t, Operands& wide) {
  const auto drop = [&](auto& data, auto& of_wide) {
    if (chance(random, 0.2)) data = of_wide = nullptr;
  };
  drop(t.view.q.data, wide.view.q.data), drop(t.view.k.data, wide.view.k.data), drop(t.view.v.data, wide.view.v.data);
  drop(t.view.bias.data, wide.view.bias.data), drop(t.view.slopes, wide.view.slopes);
  drop(t.view.sinks, wide.view.sinks), drop(t.view.table, wide.view.table);
}

/// Of operands of the case, whose terms say how large the parts of results that cancel are.
inline void expect_close(const AttentionCase& c, const Operands& got, const Operands& expected, double limit) {
  const double term = c.term();
  EXPECT_LT(relative_error(got.q, expected.q, term), limit);
  EXPECT_LT(relative_error(got.k, expected.k, term), limit);
  EXPECT_LT(relative_error(got.v, expected.v, term), limit);
  // Sums over many elements that nearly cancel: the error is relative to the terms.
  const double floor = 3.0 * term;
  EXPECT_LT(relative_error(got.bias, expected.bias, floor), 10 * limit);
  EXPECT_LT(relative_error(got.slopes, expected.slopes, 3.0 * c.slope_term()), 10 * limit);
  EXPECT_LT(relative_error(got.sinks, expected.sinks, floor), 10 * limit);
  EXPECT_LT(relative_error(got.table, expected.table, floor), 10 * limit);
}

}  // namespace deckle::testing
