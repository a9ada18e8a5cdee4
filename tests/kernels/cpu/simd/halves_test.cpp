#include "deckle/kernels/cpu/simd/halves.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "deckle/kernels/cpu/simd/convert.h"
#include "deckle/kernels/cpu/simd/convert_element.h"
#include "tests/kernels/cpu/support/buffer.h"

namespace deckle {
namespace {

using kernels::cpu::simd::narrow;
using kernels::cpu::simd::widen;

TEST(Halves, NarrowsAndWidensEveryHalfValueExactly) {
  for (uint32_t bits = 0; bits < 65536; bits += 16) {
    float wide[16];
    uint16_t source[16];
    for (uint32_t i = 0; i < 16; ++i) source[i] = static_cast<uint16_t>(bits + i);
    for (const DType dtype : {DType::float16, DType::bfloat16}) {
      if (dtype == DType::float16)
        widen(reinterpret_cast<const float16*>(source), wide, 16);
      else
        widen(reinterpret_cast<const bfloat16*>(source), wide, 16);
      for (int i = 0; i < 16; ++i) {
        const double want = testing::load(source, dtype, i);
        EXPECT_TRUE(wide[i] == want || (std::isnan(want) && std::isnan(wide[i])))
            << name(dtype) << " " << bits + static_cast<uint32_t>(i);
      }
    }
  }
}

TEST(Halves, SplitsEveryFloat16IntoTwoBfloat16Exactly) {
  constexpr int64_t kCount = 51;
  for (uint32_t bits = 0; bits < 65536; bits += kCount) {
    std::vector<float16> from(kCount);
    std::vector<bfloat16> high(kCount), low(kCount);
    bool finite = true;
    for (uint32_t i = 0; i < kCount; ++i) {
      from[i].bits = static_cast<uint16_t>(bits + i);
      finite = finite && std::isfinite(static_cast<float>(from[i]));
    }
    EXPECT_EQ(kernels::cpu::simd::split(from.data(), high.data(), low.data(), kCount), finite) << bits;
    for (size_t i = 0; finite && i < from.size(); ++i)
      EXPECT_EQ(static_cast<float>(high[i]) + static_cast<float>(low[i]), static_cast<float>(from[i])) << from[i].bits;
  }
}

TEST(Halves, NarrowsToNearestTiesToEven) {
  std::uniform_int_distribution<uint32_t> any;
  constexpr int kCount = 51;  // two vectors, one, and some elements, of each instruction set
  for (int round = 0; round < 20000; ++round) {
    float from[kCount];
    bfloat16 brain[kCount];
    float16 half[kCount];
    for (int i = 0; i < kCount; ++i) {
      const uint32_t bits =
          i % 3 == 0 ? any(testing::engine()) : (any(testing::engine()) & 0x8fffe000u) | (i % 2 ? 0x38001000u : 0x33000000u);
      std::memcpy(&from[i], &bits, 4);
    }
    narrow(from, brain, kCount);
    narrow(from, half, kCount);
    for (int i = 0; i < kCount; ++i) {
      if (std::isnan(from[i])) {
        EXPECT_TRUE(std::isnan(static_cast<float>(brain[i])) && std::isnan(static_cast<float>(half[i])));
        continue;
      }
      ASSERT_EQ(brain[i].bits, bfloat16(from[i]).bits) << from[i];
      ASSERT_EQ(half[i].bits, float16(from[i]).bits) << from[i];
    }
  }
}

TEST(Halves, DoublesAreRoundedOnce) {
  std::uniform_int_distribution<uint64_t> any;
  constexpr int kCount = 531;  // more than one run of floats
  for (int round = 0; round < 4000; ++round) {
    std::vector<double> from(kCount), back(kCount);
    std::vector<bfloat16> brain(kCount);
    std::vector<float16> half(kCount);
    for (int i = 0; i < kCount; ++i) {
      // Of all sizes, at ties and next to them, subnormal results, infinities and NaN.
      const double near = std::ldexp(1.0 + static_cast<double>(any(testing::engine()) % 4096) / 2048, i % 300 - 155);
      uint64_t bits = any(testing::engine());
      if (i % 4 == 0) std::memcpy(&from[static_cast<size_t>(i)], &bits, 8);
      if (i % 4 != 0) from[static_cast<size_t>(i)] = near * (i % 4 == 1 ? 1 : i % 4 == 2 ? 1 + 0x1p-45 : -1 + 0x1p-45);
    }
    from[0] = std::numeric_limits<double>::infinity();
    from[1] = -std::numeric_limits<double>::infinity();
    from[2] = std::nan("");
    from[3] = -0.0;
    from[4] = 0x1p-134;  // half of the least bfloat16
    from[5] = 0x1p-134 * (1 + 0x1p-40);
    from[6] = 0x1.fffp127;
    narrow(from.data(), brain.data(), kCount);
    narrow(from.data(), half.data(), kCount);
    widen(brain.data(), back.data(), kCount);
    for (size_t i = 0; i < kCount; ++i) {
      if (std::isnan(from[i])) {
        ASSERT_TRUE(std::isnan(static_cast<float>(brain[i])) && std::isnan(static_cast<float>(half[i])) && std::isnan(back[i]));
        continue;
      }
      ASSERT_EQ(brain[i].bits, kernels::cpu::simd::convert<bfloat16>(from[i]).bits) << from[i];
      ASSERT_EQ(half[i].bits, kernels::cpu::simd::convert<float16>(from[i]).bits) << from[i];
      ASSERT_EQ(back[i], static_cast<double>(brain[i]));
    }
  }
}

/// The half nearest to an integer, of a tie the even one, found among its neighbours without floating-point arithmetic.
int64_t nearest_with_bits(int64_t value, int bits) {
  const bool negative = value < 0;
  const uint64_t size = negative ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  int shift = 0;
  while (size >> shift >> bits != 0) ++shift;
  const uint64_t unit = uint64_t{1} << shift, rest = size & (unit - 1), low = size - rest;
  const bool up = 2 * rest > unit || (2 * rest == unit && (low & unit) != 0);
  const uint64_t rounded = low + (up ? unit : 0);  // at most 2^63: held as its negative
  return static_cast<int64_t>(negative ? -rounded : rounded);
}

TEST(Halves, IntegersAreRoundedOnce) {
  using kernels::cpu::simd::store_run;
  std::uniform_int_distribution<uint64_t> any;
  constexpr int64_t kOne = 1;
  std::vector<int64_t> from{(kOne << 60) + (kOne << 52) + 1,
                            -(kOne << 60) - (kOne << 52) - 1,
                            (kOne << 60) + (kOne << 52),
                            (kOne << 60) + 3 * (kOne << 52),
                            (kOne << 53) + 1,
                            INT64_MIN,
                            INT64_MIN + 1,
                            INT64_MAX,
                            0,
                            1,
                            -1,
                            65504,
                            65519,
                            65520,
                            -65520,
                            2049,
                            2051};
  for (int i = 0; i < 4000; ++i) {  // of all sizes, at ties and next to them
    const auto size = static_cast<int64_t>(any(testing::engine()) >> 1 >> (i % 62));
    const int64_t tie = ((int64_t{128} + i % 128) * 2 + 1) << (i % 54);
    from.insert(from.end(), {size, -size, tie, tie + 1, tie - 1, -tie, -tie + 1, -tie - 1});
  }
  const auto count = static_cast<int64_t>(from.size());
  for (const int64_t stride : {1, 2}) {
    std::vector<bfloat16> brain(static_cast<size_t>(2 * count));
    std::vector<float16> half(static_cast<size_t>(2 * count));
    store_run(from.data(), count, brain.data(), DType::bfloat16, stride);
    store_run(from.data(), count, half.data(), DType::float16, stride);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t value = from[static_cast<size_t>(i)];
      const auto at = static_cast<size_t>(i * stride);
      const bool whole = value > INT64_MAX - (kOne << 54);  // rounds to 2^63, which is no int64
      ASSERT_EQ(static_cast<double>(brain[at]), whole ? 0x1p63 : static_cast<double>(nearest_with_bits(value, 8))) << value;
      ASSERT_EQ(static_cast<double>(half[at]), value >= 65520    ? std::numeric_limits<double>::infinity()
                                               : value <= -65520 ? -std::numeric_limits<double>::infinity()
                                                                 : static_cast<double>(nearest_with_bits(value, 11)))
          << value;
      ASSERT_EQ(kernels::cpu::simd::convert<bfloat16>(value).bits, brain[at].bits);
    }
  }
}

}  // namespace
}  // namespace deckle
