// The loop over bfloat16 elements of simd/loop.h against the one over floats, rounded: bit for bit, on every instruction set that
// has it.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/cpu/simd/half_loop_test.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "deckle/kernels/cpu/simd/loop.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {

struct QuotientOfSum {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, V c) const {
    return hn::Div(hn::Add(a, b), c);
  }
};
struct Smaller {
  static constexpr bool kExact = true;
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b) const {
    return hn::IfThenElse(hn::Lt(a, b), hn::Neg(a), b);
  }
};

pointwise::Blocks quotient_of_sum() { return blocks<QuotientOfSum, 3>(); }
pointwise::Blocks smaller() { return blocks<Smaller, 2>(); }

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "tests/kernels/cpu/support/buffer.h"

namespace deckle::kernels::cpu {
HWY_EXPORT(quotient_of_sum);
HWY_EXPORT(smaller);

namespace {

/// kExact is of elements alone: without numbers.
void expect_same(const pointwise::Blocks& blocks, size_t inputs, bool with_numbers, std::mt19937_64& engine) {
  for (int64_t n = 0; n < 200; ++n) {
    std::vector<std::vector<bfloat16>> elements(inputs, std::vector<bfloat16>(static_cast<size_t>(n) + 1));
    std::vector<std::vector<float>> floats(inputs, std::vector<float>(static_cast<size_t>(n) + 1));
    std::vector<float> numbers(inputs);
    std::vector<const bfloat16*> in;
    std::vector<const float*> wide;
    std::vector<uint8_t> kinds, scalars;
    for (size_t k = 0; k < inputs; ++k) {
      for (size_t i = 0; i <= static_cast<size_t>(n); ++i) {
        elements[k][i].bits = static_cast<uint16_t>(engine());  // every value, NaN and subnormals among them
        floats[k][i] = static_cast<float>(elements[k][i]);
      }
      numbers[k] = std::bit_cast<float>(static_cast<uint32_t>(engine() & 0x3fffffff));
      kinds.push_back(
          static_cast<uint8_t>(engine() % 2 * (with_numbers && engine() % 2 ? pointwise::kNumber : pointwise::kElement)));
      scalars.push_back(kinds[k] != pointwise::kElements);
      const bool number = kinds[k] == pointwise::kNumber;
      in.push_back(number ? reinterpret_cast<const bfloat16*>(&numbers[k]) : elements[k].data());
      wide.push_back(number ? &numbers[k] : floats[k].data());
    }
    std::vector<bfloat16> out(static_cast<size_t>(n) + 1);
    std::vector<float> want(static_cast<size_t>(n) + 1);
    out.back().bits = 0x1234;
    bfloat16* const to = out.data();
    float* const wide_to = want.data();
    blocks.bf16(n, in.data(), kinds.data(), &to);
    blocks.f32(n, wide.data(), scalars.data(), &wide_to);
    EXPECT_EQ(out.back().bits, 0x1234) << "written beyond the end";
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      if (std::isnan(want[i]))
        ASSERT_TRUE(std::isnan(static_cast<float>(out[i])));
      else
        ASSERT_EQ(out[i].bits, bfloat16(want[i]).bits) << n << " " << i;
    }
  }
}

TEST(HalfLoop, GivesTheFloatsResultsRounded) {
  std::mt19937_64& engine = testing::engine();
  for (const int64_t target : simd::usable_targets()) {
    simd::force_target(target);
    const pointwise::Blocks three = DECKLE_SIMD(quotient_of_sum)(), two = DECKLE_SIMD(smaller)();
    ASSERT_EQ(three.bf16 != nullptr, target == HWY_AVX3);
    if (three.bf16 == nullptr) continue;
    for (int round = 0; round < 20; ++round) {
      expect_same(three, 3, true, engine);
      if (round % 3 == 0) expect_same(two, 2, false, engine);
    }
  }
}

}  // namespace
}  // namespace deckle::kernels::cpu
#endif
