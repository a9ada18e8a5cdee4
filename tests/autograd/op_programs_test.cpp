// Random programs on one input: derivatives of first, second and third order in every mixture of modes, compared with each other
// and with central differences.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>

#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "tests/autograd/op_programs.h"
#include "tests/support/random.h"
#include "tests/support/sanitizers.h"

namespace deckle {
namespace {

using op_programs::Program;
using Map = std::function<Tensor(const Tensor&)>;

Map reverse(const Map& f, const Tensor& v) {
  return [f, v](const Tensor& x) { return sum(grad([&](const Tensor& y) { return f(y); }, x) * v); };
}
Map forward(const Map& f, const Tensor& v) {
  return [f, v](const Tensor& x) { return jvp([&](const Tensor& y) { return f(y); }, x, v).second; };
}
/// The derivative of f along v by differences of fourth order; NaN where two steps disagree, as near a kink.
double difference(const Map& f, const Tensor& x, const Tensor& v) {
  const auto at = [&](double step) { return f(x + v * step).item(); };
  const auto slope = [&](double h) { return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h); };
  const double coarse = slope(2e-3), fine = slope(5e-4);
  return std::abs(coarse - fine) <= 1e-5 * (1 + std::abs(fine)) ? fine : std::nan("");
}

void expect_near(double got, double expected, double tolerance, const std::string& what) {
  EXPECT_LE(std::abs(got - expected), tolerance * (1 + std::abs(expected))) << what << ": " << got << " against " << expected;
}

/// All mixtures of modes up to third order agree within the tolerance; returns how many orders were held against differences too.
int compare(const Map& f, const Tensor& x, const Tensor& v, double tolerance, bool with_differences) {
  int differences = 0;
  std::vector<Map> maps = {f};
  std::vector<std::string> names = {""};
  for (int order = 1; order <= 3; ++order) {
    std::vector<Map> next;
    std::vector<std::string> next_names;
    for (size_t i = 0; i < maps.size(); ++i) {
      next.push_back(reverse(maps[i], v));
      next_names.push_back("r" + names[i]);
      next.push_back(forward(maps[i], v));
      next_names.push_back("f" + names[i]);
    }
    const double first = next[0](x).item();
    for (size_t i = 1; i < next.size(); ++i)
      expect_near(next[i](x).item(), first, tolerance, next_names[i] + " against " + next_names[0]);
    // The lower order is right: its differences are those of this one.
    const double by_difference = with_differences ? difference(maps[0], x, v) : std::nan("");
    if (!std::isnan(by_difference)) {
      ++differences;
      expect_near(first, by_difference, 1e-4, "order " + std::to_string(order) + " against differences");
    }
    maps = std::move(next);
    names = std::move(next_names);
  }
  return differences;
}

/// DECKLE_TEST_PROGRAMS: how many, for longer runs.
int programs(int usual) {
  const char* const count = std::getenv("DECKLE_TEST_PROGRAMS");
  return testing::repetitions(count == nullptr ? usual : std::atoi(count));
}

void compare_all(bool narrow, double tolerance) {
  std::mt19937_64 seeds(testing::seed());
  int compared = 0, differences = 0;
  for (int round = 0; round < programs(60); ++round) {
    const uint64_t seed = seeds();
    Program program(seed, narrow);
    const Tensor x = tanh(testing::random_tensor({12})) * 0.9, v = tanh(testing::random_tensor({12}));
    if (!(std::abs(program(x).item()) < 1e3)) continue;
    ++compared;
    const Map f = [&](const Tensor& y) { return program(y); };
    ASSERT_NO_THROW(differences += compare(f, x, v, tolerance, !narrow)) << "seed " << seed;
    ASSERT_FALSE(::testing::Test::HasFailure()) << "seed " << seed;
    ASSERT_EQ(grad([&](const Tensor& y) { return program(y); }, x).dtype(), DType::float64) << "seed " << seed;
  }
  EXPECT_GT(compared, programs(60) / 2);
  EXPECT_TRUE(narrow || differences > compared) << "of three a program";
}

TEST(OpPrograms, HaveTheRightDerivativesInEveryMixtureOfModes) { compare_all(false, 1e-8); }

TEST(OpPrograms, OfFloat32AndFloat64AgreeInEveryMixtureOfModes) { compare_all(true, 1e-2); }

}  // namespace
}  // namespace deckle
