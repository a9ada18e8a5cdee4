// Powers of integers are integers.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "deckle/functional/transforms.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/nested/nested_tensor.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_error;
using testing::tensor_of;
using Whole = std::vector<int64_t>;

Tensor integers(const Whole& values, DType dtype = DType::int64) {
  const Tensor made = empty({static_cast<int64_t>(values.size())}, DType::int64);
  std::copy(values.begin(), values.end(), made.data<int64_t>());
  return made.to(dtype);
}

/// By products of unsigned numbers, which wrap around.
int64_t product(int64_t base, int64_t exponent) {
  uint64_t result = 1;
  for (int64_t i = 0; i < exponent; ++i) result *= static_cast<uint64_t>(base);
  return static_cast<int64_t>(result);
}

TEST(IntegerPow, IsExactInInt64) {
  const Whole bases = {-7, -3, -2, -1, 0, 1, 2, 3, 10, 3037000499, -2097151, INT64_MAX, INT64_MIN};
  for (int64_t exponent = 0; exponent <= 64; ++exponent) {
    Whole expected;
    for (const int64_t base : bases) expected.push_back(product(base, exponent));
    const Tensor by_number = pow(integers(bases), exponent);
    EXPECT_EQ(name(by_number.dtype()), "int64");
    EXPECT_EQ(by_number.to_vector<int64_t>(), expected) << "to the power of " << exponent;
    const Tensor exponents = full({static_cast<int64_t>(bases.size())}, exponent, DType::int64);
    EXPECT_EQ(pow(integers(bases), exponents).to_vector<int64_t>(), expected) << "to the powers of " << exponent;
    for (size_t i = 0; i < bases.size(); ++i)
      EXPECT_EQ(pow(bases[i], integers({exponent})).item<int64_t>(), expected[i]) << bases[i] << " to the power of " << exponent;
  }
}

TEST(IntegerPow, OfExponentsThatDifferLaneByLane) {
  Whole bases, exponents, expected;
  for (int i = 0; i < 1003; ++i) {
    bases.push_back(testing::random_integer(-9, 9));
    exponents.push_back(testing::random_integer(0, 70));
    expected.push_back(product(bases.back(), exponents.back()));
  }
  EXPECT_EQ(pow(integers(bases), integers(exponents)).to_vector<int64_t>(), expected);
}

TEST(IntegerPow, WrapsAroundAsProductsOfTheDtypeDo) {
  EXPECT_EQ(pow(integers({3, 2}), 39).to_vector<int64_t>(), (Whole{4052555153018976267, int64_t{1} << 39}));
  EXPECT_EQ(pow(integers({46341, 46340, -2}, DType::int32), 2).to_vector<int64_t>(), (Whole{-2147479015, 2147395600, 4}));
  EXPECT_EQ(pow(integers({15, 16, 17, 2}, DType::uint8), 2).to_vector<int64_t>(), (Whole{225, 0, 33, 4}));
  const Tensor x = integers({15, 16, 17, 2}, DType::uint8);
  EXPECT_EQ(pow(x, 2).to_vector(), (x * x).to_vector());
}

TEST(IntegerPow, KeepsTheDtypeOfItsOperands) {
  const auto dtype_of_pow = [](const auto& a, const auto& b) { return std::string(name(pow(a, b).dtype())); };
  const Tensor i64 = integers({2}), i32 = integers({2}, DType::int32), u8 = integers({2}, DType::uint8),
               flag = integers({1}, DType::bool_), f32 = ones({1}), f64 = ones({1}, DType::float64);
  EXPECT_EQ(dtype_of_pow(i32, 2), "int32");
  EXPECT_EQ(dtype_of_pow(u8, 2), "uint8");
  EXPECT_EQ(dtype_of_pow(2, i32), "int32");
  EXPECT_EQ(dtype_of_pow(i32, i64), "int64");
  EXPECT_EQ(dtype_of_pow(u8, i32), "int32");
  EXPECT_EQ(dtype_of_pow(flag, 2), "int64");
  EXPECT_EQ(dtype_of_pow(i64, 2.0), "float32");
  EXPECT_EQ(dtype_of_pow(2.0, i64), "float32");
  EXPECT_EQ(dtype_of_pow(i64, f32), "float32");
  EXPECT_EQ(dtype_of_pow(f64, i64), "float64");
  expect_error([&] { pow(flag, flag); }, "pow: the operands are bool, which has no arithmetic (expected a numeric dtype)");
}

TEST(IntegerPow, RefusesNegativeExponents) {
  const Tensor i = integers({2, 4}), down = integers({2, -1});
  const std::string tensor = "exponent has negative integers (expected 0 or more where both are integers: ";
  expect_error([&] { pow(i, -1); }, "pow: exponent is -1 (expected 0 or more for integers: write -1.0, or make self floating)");
  expect_error([&] { pow_(i, -2); }, "pow_: exponent is -2 (expected 0 or more for integers");
  expect_error([&] { pow_out(i, i, -2); }, "pow_out: exponent is -2 (expected 0 or more for integers");
  expect_error([&] { pow(integers({2, 3}, DType::uint8), -1); }, "pow: exponent is -1 (expected 0 or more for integers");
  expect_error([&] { pow(i, down); }, "pow: " + tensor + "make one floating)");
  expect_error([&] { pow(i, down.to(DType::int32)); }, "pow: " + tensor);
  expect_error([&] { i.clone().pow_(down); }, "pow_: " + tensor);
  expect_error([&] { pow_out(i, i, down); }, "pow_out: " + tensor);
  expect_error([&] { pow(2, down); }, "pow: " + tensor + "make one floating)");
  expect_error([&] { pow(integers({2, 3}, DType::bool_), -1); }, "pow: exponent is -1 (expected 0 or more");
  EXPECT_EQ(i.to_vector<int64_t>(), (Whole{2, 4}));  // as it was
  // Where either is floating there are reciprocals.
  EXPECT_EQ(pow(i, -1.0).to_vector(), (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(pow(2.0, down).to_vector(), (std::vector<double>{4, 0.5}));
  EXPECT_EQ(pow(i.to(DType::float64), down).to_vector(), (std::vector<double>{4, 0.25}));
  EXPECT_EQ(pow(i.to(DType::float64), -1).to_vector(), (std::vector<double>{0.5, 0.25}));
  // Nothing is negative in nothing.
  EXPECT_EQ(pow(integers({}), integers({})).numel(), 0);
}

TEST(IntegerPow, OfRowsOfNestedTensors) {
  const NestedTensor x = NestedTensor::from_list({integers({2, 3}), integers({}), integers({5})});
  EXPECT_EQ(pow(x, 3).values().to_vector<int64_t>(), (Whole{8, 27, 125}));
  EXPECT_EQ(pow(x, x).values().to_vector<int64_t>(), (Whole{4, 27, 3125}));
  expect_error([&] { pow(x, -1); }, "pow: exponent is -1 (expected 0 or more for integers");
  expect_error([&] { pow(x, neg(x)); }, "pow: exponent has negative integers");
}

TEST(IntegerPow, InPlaceAndDerivativesBesideIt) {
  const Tensor i = integers({2, 3});
  i.clone().pow_(2);
  const Tensor own = i.clone();
  EXPECT_EQ(own.pow_(3).to_vector<int64_t>(), (Whole{8, 27}));
  EXPECT_EQ(name(own.dtype()), "int64");
  expect_error([&] { own.pow_(0.5); }, "pow_: the result is float32 and cannot be written into int64");
  // The slope along what is floating, with integers on the other side.
  const Tensor x = tensor_of({2, 3});
  EXPECT_EQ(grad([&](const Tensor& a) { return sum(pow(a, integers({3, 2}))); }, x).to_vector(), (std::vector<double>{12, 6}));
  const Tensor slope = grad([&](const Tensor& a) { return sum(pow(i, a)); }, x);
  EXPECT_NEAR(slope.to_vector()[0], 4 * std::log(2.0), 1e-12);
  EXPECT_NEAR(slope.to_vector()[1], 27 * std::log(3.0), 1e-12);
}

}  // namespace
}  // namespace deckle
