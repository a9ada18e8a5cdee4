// The loops over halves of simd/loop.h against the one over floats, rounded, and the one over int32 against that over int64: bit
// for bit, on every instruction set that has them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/cpu/simd/half_loop_test.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "deckle/kernels/cpu/simd/loop.h"
#include "deckle/kernels/cpu/simd/math_bits.h"

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

struct ShiftedLeft {
  static constexpr bool kInt32 = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b, V c) const {
    return hn::Sub(hn::Mul(hn::Max(a, b), c), hn::IfThenElse(hn::Lt(b, c), hn::Neg(a), left_shift(d, b, c)));
  }
};
struct ShiftedRight {
  static constexpr bool kInt32 = true;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return right_shift(d, a, b);
  }
};

pointwise::Blocks quotient_of_sum() { return blocks<QuotientOfSum, 3>(); }
pointwise::Blocks smaller() { return blocks<Smaller, 2>(); }
pointwise::Blocks shifted_left() { return blocks_of_integers<ShiftedLeft, 3>(); }
pointwise::Blocks shifted_right() { return blocks_of_integers<ShiftedRight, 2>(); }

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
HWY_EXPORT(shifted_left);
HWY_EXPORT(shifted_right);

namespace {

/// kExact is of elements alone: without numbers.
template <typename H>
void expect_same(pointwise::BlockFunction<H> function, pointwise::BlockFunction<float> reference, size_t inputs,
                 bool with_numbers, std::mt19937_64& engine) {
  for (int64_t n = 0; n < 200; ++n) {
    std::vector<std::vector<H>> elements(inputs, std::vector<H>(static_cast<size_t>(n) + 1));
    std::vector<std::vector<float>> floats(inputs, std::vector<float>(static_cast<size_t>(n) + 1));
    std::vector<float> numbers(inputs);
    std::vector<const H*> in;
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
      in.push_back(number ? reinterpret_cast<const H*>(&numbers[k]) : elements[k].data());
      wide.push_back(number ? &numbers[k] : floats[k].data());
    }
    std::vector<H> out(static_cast<size_t>(n) + 1);
    std::vector<float> want(static_cast<size_t>(n) + 1);
    out.back().bits = 0x1234;
    H* const to = out.data();
    float* const wide_to = want.data();
    function(n, in.data(), kinds.data(), &to);
    reference(n, wide.data(), scalars.data(), &wide_to);
    EXPECT_EQ(out.back().bits, 0x1234) << "written beyond the end";
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      if (std::isnan(want[i]))
        ASSERT_TRUE(std::isnan(static_cast<float>(out[i])));
      else
        ASSERT_EQ(out[i].bits, H(want[i]).bits) << n << " " << i;
    }
  }
}

/// Of elements within int32, up to its ends, and numbers.
void expect_same_integers(const pointwise::Blocks& blocks, size_t inputs, std::mt19937_64& engine) {
  const auto any = [&] {
    const auto bits = static_cast<int32_t>(engine());
    return engine() % 4 == 0 ? bits % 70 : engine() % 8 == 0 ? (bits < 0 ? INT32_MIN : INT32_MAX) : bits;
  };
  for (int64_t n = 0; n < 200; ++n) {
    const auto size = static_cast<size_t>(n) + 1;
    std::vector<std::vector<int32_t>> elements(inputs, std::vector<int32_t>(size));
    std::vector<std::vector<int64_t>> wide(inputs, std::vector<int64_t>(size));
    std::vector<const int32_t*> in;
    std::vector<const int64_t*> wide_in;
    std::vector<uint8_t> kinds;
    for (size_t k = 0; k < inputs; ++k) {
      for (size_t i = 0; i < size; ++i) wide[k][i] = elements[k][i] = any();
      in.push_back(elements[k].data()), wide_in.push_back(wide[k].data());
      kinds.push_back(static_cast<uint8_t>(engine() % 3));
    }
    std::vector<int32_t> out(size, 0x1234);
    std::vector<int64_t> want(size);
    int32_t* const to = out.data();
    int64_t* const wide_to = want.data();
    blocks.i32(n, in.data(), kinds.data(), &to);
    blocks.i64(n, wide_in.data(), kinds.data(), &wide_to);
    EXPECT_EQ(out.back(), 0x1234) << "written beyond the end";
    for (size_t i = 0; i + 1 < size; ++i) ASSERT_EQ(out[i], static_cast<int32_t>(want[i])) << n << " " << i;
  }
}

TEST(HalfLoop, GivesTheFloatsResultsRounded) {
  std::mt19937_64& engine = testing::engine();
  for (const int64_t target : simd::usable_targets()) {
    simd::force_target(target);
    const pointwise::Blocks three = DECKLE_SIMD(quotient_of_sum)(), two = DECKLE_SIMD(smaller)();
    ASSERT_EQ(three.bf16 != nullptr, target == HWY_AVX3);
    ASSERT_EQ(three.f16 != nullptr, target == HWY_AVX3);
    if (three.bf16 == nullptr) continue;
    for (int round = 0; round < 20; ++round) {
      expect_same(three.bf16, three.f32, 3, true, engine);
      expect_same(three.f16, three.f32, 3, true, engine);
      if (round % 3 == 0) expect_same(two.bf16, two.f32, 2, false, engine);
      expect_same(two.f16, two.f32, 2, true, engine);
    }
  }
}

TEST(Int32Loop, GivesTheLowBitsOfWhatInt64Gives) {
  for (const int64_t target : simd::usable_targets()) {
    simd::force_target(target);
    const pointwise::Blocks three = DECKLE_SIMD(shifted_left)(), two = DECKLE_SIMD(shifted_right)();
    ASSERT_EQ(three.i32 != nullptr, target != HWY_SCALAR);
    if (three.i32 == nullptr) continue;
    for (int round = 0; round < 20; ++round) {
      expect_same_integers(three, 3, testing::engine());
      expect_same_integers(two, 2, testing::engine());
    }
  }
}

}  // namespace
}  // namespace deckle::kernels::cpu
#endif
