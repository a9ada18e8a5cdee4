#include "deckle/kernels/cpu/simd/halves.h"

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

}  // namespace
}  // namespace deckle
