#include "deckle/kernels/cpu/simd/halves.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

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

}  // namespace
}  // namespace deckle
