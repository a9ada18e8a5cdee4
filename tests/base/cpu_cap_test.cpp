#include "deckle/base/cpu_cap.h"

#include <gtest/gtest.h>

namespace deckle {
namespace {

constexpr CpuIsa kAvx2 = CpuIsa::avx2, kAvx512 = CpuIsa::avx512, kBf16 = CpuIsa::avx512_bf16, kAmx = CpuIsa::amx_bf16;
constexpr Bf16Arithmetic kWidened = Bf16Arithmetic::widened, kPairDot = Bf16Arithmetic::pair_dot, kTiles = Bf16Arithmetic::tiles;

const CpuInfo kZen4{"AuthenticAMD", 0x19, 0x11, kBf16}, kZen5{"AuthenticAMD", 0x1a, 2, kBf16},
    kSapphireRapids{"GenuineIntel", 6, 0x8f, kAmx}, kEmeraldRapids{"GenuineIntel", 6, 0xcf, kAmx};

TEST(CpuTable, KnownFamiliesUseWhatIsFastThere) {
  for (const CpuInfo& info : {kZen4, kZen5}) EXPECT_EQ(choose_bf16(info, nullptr, true), kPairDot) << cpu_family(info).name;
  for (const CpuInfo& info : {kSapphireRapids, kEmeraldRapids})
    EXPECT_EQ(choose_bf16(info, nullptr, true), kTiles) << cpu_family(info).name;
  EXPECT_STREQ(cpu_family(kSapphireRapids).name, "Sapphire Rapids");
  EXPECT_STREQ(cpu_family({"AuthenticAMD", 0x19, 0x01, kAvx2}).name, "unknown");  // Zen 3 has no AVX-512
}

TEST(CpuTable, RefusedTilesLeaveWhatIsFastWithoutThem) {
  EXPECT_EQ(choose_bf16(kSapphireRapids, nullptr, false), kWidened);  // its pair dot runs at half the rate of its FMAs
  EXPECT_EQ(choose_bf16(kSapphireRapids, &kAmx, false), kWidened);
  EXPECT_EQ(choose_bf16(kZen5, nullptr, false), kPairDot);
}

TEST(CpuTable, AForcedSetIsTakenWhereTheProcessorHasIt) {
  EXPECT_EQ(choose_bf16(kSapphireRapids, &kBf16, true), kPairDot);
  EXPECT_EQ(choose_bf16(kSapphireRapids, &kAvx512, true), kWidened);
  EXPECT_EQ(choose_bf16(kSapphireRapids, &kAmx, true), kTiles);
  EXPECT_EQ(choose_bf16(kZen5, &kAmx, true), kPairDot);
  EXPECT_EQ(choose_bf16(kZen5, &kBf16, true), kPairDot);
  EXPECT_EQ(choose_bf16(kZen5, &kAvx2, true), kWidened);
  EXPECT_EQ(choose_bf16({"GenuineIntel", 6, 0x6a, kAvx512}, &kBf16, false), kWidened);  // Ice Lake has no dot product
}

TEST(CpuTable, UnknownProcessorsGoByWhatTheyReport) {
  EXPECT_EQ(choose_bf16({"GenuineIntel", 6, 0xff, kAmx}, nullptr, true), kTiles);
  EXPECT_EQ(choose_bf16({"GenuineIntel", 6, 0xff, kAmx}, nullptr, false), kWidened);
  EXPECT_EQ(choose_bf16({"GenuineIntel", 6, 0xff, kBf16}, nullptr, true), kWidened);
  EXPECT_EQ(choose_bf16({"AuthenticAMD", 0x1b, 0, kBf16}, nullptr, true), kPairDot);
  EXPECT_EQ(choose_bf16({"AuthenticAMD", 0x1b, 0, kAmx}, nullptr, false), kPairDot);
  EXPECT_EQ(choose_bf16({"AuthenticAMD", 0x1b, 0, kAvx512}, nullptr, true), kWidened);
  EXPECT_EQ(choose_bf16({"", 0, 0, CpuIsa::sse2}, nullptr, true), kWidened);
}

TEST(CpuTable, ThisMachineSaysWhatItIs) {
  EXPECT_EQ(cpu_info().vendor.size(), 12u);
  EXPECT_GT(cpu_info().family, 0);
  EXPECT_LE(cpu_isa(), cpu_info().isa);
  if (cpu_isa() < kBf16) {
    EXPECT_EQ(bf16_arithmetic(), kWidened);
  }
  if (cpu_info().isa != kAmx) {
    EXPECT_FALSE(amx_granted());
  }
}

}  // namespace
}  // namespace deckle
