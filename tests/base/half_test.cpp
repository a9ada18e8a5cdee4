#include "deckle/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace deckle {
namespace {

TEST(Half, EveryFloat16SurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float16 value;
    value.bits = static_cast<uint16_t>(bits);
    const float wide = static_cast<float>(value);
    const float16 back(wide);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(back)));
    } else {
      ASSERT_EQ(back.bits, value.bits);
    }
  }
}

/// The nearest float16 by search, ties to even.
uint16_t nearest_float16(float value) {
  uint16_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    float16 candidate;
    candidate.bits = static_cast<uint16_t>(bits);
    const double distance = std::abs(static_cast<double>(static_cast<float>(candidate)) - value);
    if (distance < best_distance || (distance == best_distance && bits % 2 == 0)) {
      best = static_cast<uint16_t>(bits);
      best_distance = distance;
    }
  }
  return best;
}

TEST(Half, Float16RoundsToNearestEven) {
  for (const float value :
       {1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f, 0x1p-25f, 1.5f * 0x1p-24f, 0x1p-14f - 0x1p-26f, 65519.0f, 0.1f, 3.14159f, 1e-7f}) {
    EXPECT_EQ(float16(value).bits, nearest_float16(value)) << value;
  }
  EXPECT_EQ(float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(float16(-65520.0f).bits, 0xfc00);
}

TEST(Half, Bfloat16RoundsToNearestEven) {
  EXPECT_EQ(bfloat16(1.0f + 0x1p-8f).bits, 0x3f80);      // tie: down to even
  EXPECT_EQ(bfloat16(1.0f + 3 * 0x1p-8f).bits, 0x3f82);  // tie: up to even
  EXPECT_EQ(bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80);
  EXPECT_TRUE(std::isnan(static_cast<float>(bfloat16(std::nanf("")))));
  EXPECT_EQ(static_cast<float>(bfloat16(-0.0f)), 0.0f);
  EXPECT_TRUE(std::signbit(static_cast<float>(bfloat16(-0.0f))));
}

}  // namespace
}  // namespace deckle
