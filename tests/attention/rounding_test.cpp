// What the rounding of a stored out does to gradients (docs/attention.md, Numerics).
#include <gtest/gtest.h>

#include <cmath>

#include "deckle/attention/attention.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::random_tensor;

double size_of(const Tensor& x) { return std::sqrt(sum(square(x)).item<double>()); }

// Delta = dO . O of bfloat16 carries what out was rounded by, and what P was that out was summed with: at most 2^-9 of
// sum_d |dO| sum_j P |v| each. It is common to a row: dq is off by that times the mean of the row's keys.
TEST(AttentionRounding, DqOfValuesWithALargeMeanIsWithinTheBoundAndOfTheSameValuesWithoutItAsGoodAsOthers) {
  constexpr int64_t kDim = 128;
  const auto drawn = [](double mean) { return to(to(random_tensor({1, 200, 2, kDim}) + mean, DType::bfloat16), DType::float64); };
  const Tensor q = drawn(0), k = drawn(1), v = drawn(2), dout = drawn(0);
  const auto dq = [&](const Tensor& values, DType dtype) {
    const auto f = [&](const Tensor& x) { return attention(x, to(k, dtype), to(values, dtype)); };
    return to(vjp(f, to(q, dtype), to(dout, dtype)).second, DType::float64);
  };
  const Tensor exact = dq(v, DType::float64), centred = v - 2.0;
  const Tensor delta_error = sum(abs(dout) * attention(q, k, abs(v)), Ints{-1}, true) * (2 * 0x1p-9);
  const double bound = size_of(delta_error * attention(q, k, k)) / std::sqrt(static_cast<double>(kDim)) + 0.01 * size_of(exact);
  const double as_given = size_of(dq(v, DType::bfloat16) - exact), without = size_of(dq(centred, DType::bfloat16) - exact);
  EXPECT_LE(size_of(dq(centred, DType::float64) - exact), 1e-12 * size_of(exact));  // rows of P sum to 1
  EXPECT_LE(as_given, bound);
  EXPECT_LE(without, 0.01 * size_of(exact)) << "with the mean: " << as_given / size_of(exact);
  RecordProperty("dq", std::to_string(as_given / size_of(exact)) + " " + std::to_string(without / size_of(exact)));
}

}  // namespace
}  // namespace deckle
