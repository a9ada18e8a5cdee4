// Random combinations of everything that a problem may have, each forward and backward by the first path that does not refuse it,
// as the library would choose; says which served how many. DECKLE_TEST_COMBINATIONS: how many, 2,000 in the long run.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <string>

#include "deckle/kernels/cuda/attention/backward.h"
#include "deckle/kernels/cuda/attention/forward.h"
#include "tests/kernels/cuda/attention_test.h"
#include "tests/kernels/cuda/device.h"
#include "tests/kernels/cuda/seed.h"

namespace deckle::testing {
namespace {

constexpr int kFew = 60;
constexpr int kMostFailures = 12;  // then the rest is not tried

int combinations() {
  const char* const text = std::getenv("DECKLE_TEST_COMBINATIONS");
  return text != nullptr ? std::atoi(text) : kFew;
}

CaseOptions draw(std::mt19937_64& random) {
  static constexpr std::pair<int, int> kDims[] = {{64, 64},  {128, 128}, {64, 64},   {128, 128}, {40, 56},
                                                  {96, 120}, {192, 128}, {256, 256}, {24, 72}};
  CaseOptions o;
  o.path = Path::portable;  // which serves all that is drawn
  o.element = random() % 4 == 0 ? AttentionElement::f16 : AttentionElement::bf16;
  std::tie(o.head_dim, o.value_dim) = kDims[random() % std::size(kDims)];
  return random_options(o, random);
}

int failures() { return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count(); }

std::string told(const std::map<std::string, int>& served) {
  std::string text;
  for (const auto& [name, count] : served) text += " " + name + " " + std::to_string(count);
  return text;
}

TEST(AttentionCombinations, MatchTheReferenceByWhicheverPathServesThem) {
  if (compute_capability() < 80) GTEST_SKIP() << "needs a GPU of compute capability 8.0 or newer";
  std::mt19937_64 random(seed() + 29);
  std::set<std::string> seen;
  std::map<std::string, int> forwards, backwards;
  for (int drawn = 0; static_cast<int>(seen.size()) < combinations() && drawn < 2 * combinations(); ++drawn) {
    CaseOptions o = draw(random);
    if (!seen.insert(describe(o)).second) continue;
    const bool hopper = compute_capability() == 90;
    const auto choose = [&](const auto& why_not, std::map<std::string, int>& served) {
      o.path = Path::hopper;
      AttentionCase asked(o);
      asked.take_gradients();
      if (!hopper || !why_not(asked.arguments).empty()) o.path = Path::portable;
      ++served[o.path == Path::hopper ? "hopper" : "portable"];
    };
    choose([](const auto& a) { return kernels::cuda::attention_forward_why_not(a.problem); }, forwards);
    verify_forward(o);
    choose([](const auto& a) { return kernels::cuda::attention_backward_why_not(a); }, backwards);
    verify_backward(o, true);
    if (failures() >= kMostFailures) break;
  }
  std::printf("%zu combinations: forward%s; backward%s\n", seen.size(), told(forwards).c_str(), told(backwards).c_str());
  RecordProperty("forward", told(forwards));
  RecordProperty("backward", told(backwards));
  if (failures() < kMostFailures) EXPECT_EQ(static_cast<int>(seen.size()), combinations());
}

}  // namespace
}  // namespace deckle::testing
