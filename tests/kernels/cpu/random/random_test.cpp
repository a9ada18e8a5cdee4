#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "deckle/base/error.h"
#include "deckle/base/philox.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/random/words.h"
#include "deckle/kernels/cpu/simd/convert_element.h"
#include "deckle/kernels/cpu/simd/targets.h"
#include "tests/kernels/cpu/support/buffer.h"
#include "tests/kernels/cpu/support/threads.h"

namespace deckle::kernels::cpu {
void rand(const Context&, std::span<const int64_t>, DType, PhiloxStream stream, const View& result);
void randn(const Context&, std::span<const int64_t>, DType, PhiloxStream stream, const View& result);
void randint(const Context&, int64_t low, int64_t high, std::span<const int64_t>, PhiloxStream stream, const View& result);
void bernoulli(const Context&, const View& self, PhiloxStream stream, const View& result);
void dropout_masked(const Context&, const View& self, double p, PhiloxStream stream, const View& out, const View& mask);
}  // namespace deckle::kernels::cpu

namespace deckle {
namespace {

using namespace kernels::cpu;
namespace simd = kernels::cpu::simd;
using kernels::cpu::random::philox_words;
using testing::Buffer;
using testing::poisoned;
using testing::random_normal;
using testing::values;

constexpr int64_t kMany = 200003;

double mean(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum / static_cast<double>(x.size());
}

double moment(const std::vector<double>& x, int power) {
  double sum = 0;
  for (const double value : x) sum += std::pow(value, power);
  return sum / static_cast<double>(x.size());
}

TEST(Philox, GivesTheWordsOfItsAuthors) {
  const Philox<10>::Words zero = Philox<10>::generate({0, 0, 0, 0}, 0, 0);
  EXPECT_EQ(zero, (Philox<10>::Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  const Philox<10>::Words ones = Philox<10>::generate({~0u, ~0u, ~0u, ~0u}, ~0u, ~0u);
  EXPECT_EQ(ones, (Philox<10>::Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
}

TEST(Philox, VectorsEqualSingleBlocksAlsoAcrossTheCarry) {
  for (const uint64_t offset :
       {uint64_t{0}, uint64_t{12345}, (uint64_t{1} << 32) - 23, (uint64_t{7} << 32) - 16, ~uint64_t{0} - 5}) {
    const PhiloxStream stream{testing::engine()(), offset};
    for (const int64_t blocks : {1, 3, 16, 37}) {
      std::vector<uint32_t> words(static_cast<size_t>(4 * blocks));
      philox_words(stream, 2, blocks, words.data());
      for (int64_t i = 0; i < 4 * blocks; ++i) {
        ASSERT_EQ(words[static_cast<size_t>(i)], stream.block(static_cast<uint64_t>(2 + i / 4))[static_cast<size_t>(i % 4)])
            << offset << " " << i;
      }
    }
  }
}

TEST(Rand, IsUniformBelowOneInEveryDType) {
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    const Buffer result = poisoned({kMany}, dtype);
    kernels::cpu::rand({}, {}, dtype, {testing::engine()(), 0}, result.view);
    const std::vector<double> x = values(result.view);
    const auto [low, high] = std::minmax_element(x.begin(), x.end());
    EXPECT_GE(*low, 0);
    EXPECT_LT(*high, 1);
    EXPECT_NEAR(mean(x), dtype == DType::bfloat16 ? 0.498 : 0.5, 0.004);
    EXPECT_NEAR(moment(x, 2), dtype == DType::bfloat16 ? 0.3314 : 1.0 / 3, 0.004);
  }
}

TEST(Rand, FillsTheSignificandOfEveryDType) {
  const std::pair<DType, int> bits[] = {{DType::float16, 11}, {DType::bfloat16, 8}, {DType::float32, 24}, {DType::float64, 53}};
  for (const auto& [dtype, count] : bits) {
    const Buffer result = poisoned({4001}, dtype);
    kernels::cpu::rand({}, {}, dtype, {testing::engine()(), 0}, result.view);
    int odd = 0;
    for (const double value : values(result.view)) {
      const double steps = std::ldexp(value, count);
      ASSERT_EQ(steps, std::floor(steps)) << "a multiple of 2^-" << count;
      odd += std::fmod(steps, 2) == 1;
    }
    EXPECT_NEAR(odd, 2000, 300) << "the last bit of " << name(dtype) << " is random too";
  }
}

TEST(Randn, HasTheMomentsOfTheStandardNormal) {
  for (const DType dtype : {DType::bfloat16, DType::float32, DType::float64}) {
    const Buffer result = poisoned({kMany}, dtype);
    randn({}, {}, dtype, {testing::engine()(), 5}, result.view);
    const std::vector<double> x = values(result.view);
    EXPECT_NEAR(mean(x), 0, 0.012);
    EXPECT_NEAR(moment(x, 2), 1, 0.02);
    EXPECT_NEAR(moment(x, 3), 0, 0.05);
    EXPECT_NEAR(moment(x, 4), 3, 0.15);
    double lag = 0;
    for (size_t i = 1; i < x.size(); ++i) lag += x[i] * x[i - 1];
    EXPECT_NEAR(lag / static_cast<double>(x.size()), 0, 0.012);
  }
}

TEST(Randn, IsTheTransformOfItsWords) {
  constexpr int64_t kCount = 5001;
  const PhiloxStream stream{testing::engine()(), 3};
  const auto word = [&](int64_t i) { return stream.block(static_cast<uint64_t>(i / 4))[static_cast<size_t>(i % 4)]; };
  const auto uniform = [&](int64_t i) { return static_cast<double>(uint64_t{word(i) >> 5} << 26 | word(i + 1) >> 6) * 0x1p-53; };
  for (const DType dtype : {DType::float32, DType::float64}) {
    const bool wide = dtype == DType::float64;
    const Buffer result = poisoned({kCount}, dtype);
    randn({}, {}, dtype, stream, result.view);
    const std::vector<double> x = values(result.view);
    for (int64_t i = 0; i < kCount; ++i) {
      const int64_t pair = i / 2 * 2;
      const double u = wide ? 1 - uniform(2 * pair) : (word(pair) + 1.0) * 0x1p-32,
                   turn = wide ? uniform(2 * pair + 2) : word(pair + 1) * 0x1p-32;
      const double radius = std::sqrt(-2 * std::log(u)), angle = turn * 2 * M_PI;
      const double want = radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
      // The angle itself is rounded: near a zero of sine and cosine that shows.
      ASSERT_NEAR(x[static_cast<size_t>(i)], want, (wide ? 1e-15 : 6.1e-8) * std::abs(want) + 3e-15) << i;
    }
  }
}

// One in 2^14 lies so near the middle of two halves that rounding to float32 first goes the wrong way.
TEST(Randn, OfHalvesIsRoundedOnce) {
  constexpr int64_t kCount = 1 << 19;
  const PhiloxStream stream{testing::engine()(), 7};
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Buffer result = poisoned({kCount}, dtype);
    randn({}, {}, dtype, stream, result.view);
    const std::vector<double> x = values(result.view);
    const auto half = [dtype](double value) {
      return dtype == DType::float16 ? static_cast<double>(static_cast<float>(simd::convert<float16>(value)))
                                     : static_cast<double>(static_cast<float>(simd::convert<bfloat16>(value)));
    };
    for (int64_t i = 0; i < kCount; i += 2) {
      const auto words = stream.block(static_cast<uint64_t>(i / 4));
      const auto first = static_cast<size_t>(i % 4);
      const double radius = std::sqrt(-2 * std::log((words[first] + 1.0) * 0x1p-32)),
                   angle = words[first + 1] * 0x1p-32 * 2 * M_PI;
      for (const int64_t k : {0, 1}) {
        const double want = radius * (k == 0 ? std::cos(angle) : std::sin(angle)), error = 1e-15 * std::abs(want) + 3e-15;
        const double got = x[static_cast<size_t>(i + k)];
        ASSERT_TRUE(got >= half(want - error) && got <= half(want + error)) << i + k << ": " << got << " for " << want;
      }
    }
  }
}

TEST(Randn, HasTheSameBitsOnEveryInstructionSet) {
  for (const DType dtype : {DType::float16, DType::float32, DType::float64}) {
    std::vector<unsigned char> first;
    for (const int64_t target : simd::usable_targets()) {
      simd::force_target(target);
      const Buffer result = poisoned({4099}, dtype);
      randn({}, {}, dtype, {2026, 9}, result.view);
      if (first.empty()) first = testing::bytes(result);
      EXPECT_EQ(testing::bytes(result), first) << name(dtype) << " " << target;
    }
  }
}

TEST(Randint, CoversItsRangeEvenly) {
  const Buffer result = poisoned({kMany}, DType::int64);
  randint({}, -2, 5, {}, {testing::engine()(), 0}, result.view);
  std::vector<int> counts(7, 0);
  for (const double value : values(result.view)) {
    ASSERT_TRUE(value >= -2 && value < 5);
    ++counts[static_cast<size_t>(value + 2)];
  }
  for (const int count : counts) EXPECT_NEAR(count, kMany / 7.0, 1000);
}

TEST(Dropout, KeepsScalesAndReportsTheMask) {
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    const double half_smallest = dtype == DType::float16 ? 0x1p-25 : 0;  // where float16 has no leading bits left
    for (const double p : {0.0, 0.3, 1.0}) {
      const Buffer self = random_normal({kMany}, dtype), out = poisoned({kMany}, dtype), mask = poisoned({kMany}, DType::bool_);
      const PhiloxStream stream{testing::engine()(), 17};
      dropout_masked({}, self.view, p, stream, out.view, mask.view);
      const std::vector<double> x = values(self.view), y = values(out.view), kept = values(mask.view);
      for (size_t i = 0; i < x.size(); ++i) {
        const uint32_t word = stream.block(i / 4)[i % 4];
        ASSERT_EQ(kept[i], word >= p * 0x1p32 ? 1 : 0);
        const double want = kept[i] != 0 ? x[i] / (1 - p) : 0;
        ASSERT_NEAR(y[i], want, testing::rounding_bound(dtype, 2) * std::abs(want) + half_smallest) << i;
      }
      EXPECT_NEAR(mean(kept), 1 - p, 0.006);
    }
  }
}

TEST(Bernoulli, FollowsEachProbability) {
  Buffer p = random_normal({3}, DType::float32);
  for (int i = 0; i < 3; ++i) testing::store(p.view.data, DType::float32, i, i * 0.5);
  const Buffer result = poisoned({3}, DType::float32);
  double sum = 0;
  for (uint64_t round = 0; round < 4000; ++round) {
    bernoulli({}, p.view, {99, round}, result.view);
    const std::vector<double> x = values(result.view);
    ASSERT_EQ(x[0], 0);
    ASSERT_EQ(x[2], 1);
    sum += x[1];
  }
  EXPECT_NEAR(sum / 4000, 0.5, 0.04);
  for (const double wrong : {-0.25, 1.5, std::nan("")}) {
    testing::store(p.view.data, DType::float32, 1, wrong);
    EXPECT_THROW(bernoulli({}, p.view, {99, 0}, result.view), Error) << wrong;
  }
}

TEST(Bernoulli, IsWhetherTheWordIsBelowTheProbability) {  // as on a GPU, also where both are equal, and in the last block
  const PhiloxStream stream{testing::engine()(), 17};
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
    const Buffer p({5003}, dtype), result = poisoned({5003}, dtype);
    const auto word = [&](int64_t i) { return stream.block(static_cast<uint64_t>(i) / 4)[static_cast<size_t>(i) % 4] * 0x1p-32; };
    for (int64_t i = 0; i < 5003; ++i) {
      const double chances[] = {word(i), std::nextafter(word(i), 1.0), 0.0, -0.0, 1.0, 0x1p-24, 0.5};
      testing::store(p.view.data, dtype, i, chances[i % 7]);
    }
    bernoulli({}, p.view, stream, result.view);
    const std::vector<double> chance = values(p.view), drawn = values(result.view);
    for (int64_t i = 0; i < 5003; ++i) {
      const auto at = static_cast<size_t>(i);
      ASSERT_EQ(drawn[at], word(i) < chance[at] ? 1 : 0) << name(dtype) << " element " << i << " of " << chance[at];
    }
    testing::store(p.view.data, dtype, 4999, 2);
    try {
      bernoulli({}, p.view, stream, result.view);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), "element 4999 is 2 (expected a probability, 0 to 1)");
    }
  }
}

TEST(Random, NumbersDependOnNeitherThreadsNorPositionInTheCall) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Buffer many = poisoned({kMany}, dtype), few = poisoned({7}, dtype);
    testing::expect_same_for_thread_counts([&] {
      const Buffer uniform = poisoned({kMany}, dtype);
      randn({}, {}, dtype, {4, 2}, many.view);
      kernels::cpu::rand({}, {}, dtype, {4, 2}, uniform.view);
      return testing::bytes(many, uniform);
    });
    randn({}, {}, dtype, {4, 2}, few.view);
    const std::vector<unsigned char> all = testing::bytes(many), begin = testing::bytes(few);
    EXPECT_TRUE(std::equal(begin.begin(), begin.end(), all.begin()));
  }
}

TEST(Random, NumbersAreTheSameOnEveryInstructionSet) {
  const Buffer result = poisoned({5}, DType::float64);
  randn({}, {}, DType::float64, {2024, 6}, result.view);
  const std::vector<double> x = values(result.view);
  const PhiloxStream stream{2024, 6};
  const Philox<10>::Words first = stream.block(0);
  const auto uniform = [](uint64_t high, uint64_t low) { return static_cast<double>((high >> 5) << 26 | low >> 6) * 0x1p-53; };
  const double u = 1 - uniform(first[0], first[1]), angle = uniform(first[2], first[3]) * 2 * M_PI;
  EXPECT_DOUBLE_EQ(x[0], std::sqrt(-2 * std::log(u)) * std::cos(angle));
  EXPECT_DOUBLE_EQ(x[1], std::sqrt(-2 * std::log(u)) * std::sin(angle));
}

}  // namespace
}  // namespace deckle
