#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "deckle/core/tensor.h"

namespace deckle::testing {

/// Equal shapes, and every element within absolute + relative * |expected|; NaN equals NaN, infinities only themselves.
inline void expect_close(const Tensor& got, const Tensor& expected, double absolute = 1e-9, double relative = 1e-9) {
  ASSERT_TRUE(got.defined() && expected.defined());
  ASSERT_EQ(to_string(got.sizes()), to_string(expected.sizes()));
  const std::vector<double> a = got.to_vector(), b = expected.to_vector();
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    ASSERT_LE(std::abs(a[i] - b[i]), absolute + relative * std::abs(b[i]))
        << "at position " << i << ": " << a[i] << " against " << b[i];
  }
}

inline void expect_equal(const Tensor& got, const Tensor& expected) { expect_close(got, expected, 0, 0); }

/// The message of the Error that `call` throws, or "no error".
template <typename Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

/// `body` throws an Error whose message contains `part`.
template <typename Body>
void expect_error(Body&& body, const std::string& part) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(part), std::string::npos) << "the message is: " << error.message();
    return;
  }
  ADD_FAILURE() << "no error; expected one with: " << part;
}

}  // namespace deckle::testing
