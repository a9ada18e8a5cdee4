// Random combinations of everything that a problem may have, each forward and backward by the first path that does not refuse it,
// as the library would choose; says which served how many, feature by feature, and holds Hopper's to what it is said to serve.
// DECKLE_TEST_COMBINATIONS: how many, 2,000 in the long run. Float32, forward mode and second order, whose kernels have the
// library's other ones beside them: tests/cuda/attention_combinations_test.cpp.
#include <algorithm>
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
#include "tests/support/seed.h"

namespace deckle::testing {
namespace {

constexpr int kFew = 200;
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

struct Feature {
  const char* name;
  bool (*in)(const CaseOptions&);
};
constexpr Feature kFeatures[] = {{"soft cap", [](const CaseOptions& o) { return o.soft_cap != 0; }},
                                 {"slopes", [](const CaseOptions& o) { return o.slopes; }},
                                 {"dropout", [](const CaseOptions& o) { return o.dropout.threshold != 0; }},
                                 {"bias", [](const CaseOptions& o) { return o.bias_dims >= 0; }},
                                 {"table", [](const CaseOptions& o) { return o.table_reach >= 0; }},
                                 {"ranges", [](const CaseOptions& o) { return o.ranges > 0; }},
                                 {"bytes", [](const CaseOptions& o) { return o.mask_dims >= 0; }}};

bool has_features(const CaseOptions& o) {
  return std::any_of(std::begin(kFeatures), std::end(kFeatures), [&](const Feature& feature) { return feature.in(o); });
}

bool dims_are_served(const CaseOptions& o) {
  const auto by = [&](int head_dim, int value_dim) {
    return kernels::compiled_dims_serve(head_dim, value_dim, o.head_dim, o.value_dim);
  };
  return by(64, 64) || by(128, 128) || (!has_features(o) && (by(192, 128) || by(192, 192) || by(256, 256)));
}

/// Whether Hopper's forward is said to serve it: docs/hopper.md and the candidates of the library. Biases of a case have rows of
/// multiples of 16 bytes where Hopper is asked.
bool forward_is_claimed(const CaseOptions& o) {
  const bool mask_of_heads = o.mask_dims >= 0 && (o.mask_dims & 4) != 0 && o.heads > 1;
  const bool read_bias = (o.bias_dims & 1) != 0 && (!o.ragged_bias || (o.bias_dims & 2) != 0);
  return dims_are_served(o) && !mask_of_heads && (o.bias_dims < 0 || read_bias);
}

bool backward_is_claimed(const CaseOptions& o) {
  if (!forward_is_claimed(o) || o.table_reach >= 0) return false;
  const bool alone = o.soft_cap == 0 && !o.slopes && o.dropout.threshold == 0 && o.ranges == 0 && o.mask_dims < 0;
  return o.bias_dims < 0 || (alone && (o.bias_dims & 2) != 0 && (o.ragged || o.queries[0] > 1));
}

/// Of each feature, how many combinations with it each path served.
struct Table {
  std::map<std::string, std::map<std::string, int>> rows;

  void add(const CaseOptions& o, const std::string& direction) {
    const std::string column = direction + (o.path == Path::hopper ? " hopper" : " portable");
    ++rows["all"][column];
    if (!has_features(o)) ++rows["none of these"][column];
    for (const Feature& feature : kFeatures) {
      if (feature.in(o)) ++rows[feature.name][column];
    }
  }
  void print() const {
    for (const auto& [name, counts] : rows) {
      std::printf("  %-14s", name.c_str());
      for (const char* column : {"forward hopper", "forward portable", "backward hopper", "backward portable"})
        std::printf("  %s %5d", column, counts.contains(column) ? counts.at(column) : 0);
      std::printf("\n");
    }
  }
};

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
  Table table;
  for (int drawn = 0; static_cast<int>(seen.size()) < combinations() && drawn < 2 * combinations(); ++drawn) {
    CaseOptions o = draw(random);
    if (!seen.insert(describe(o)).second) continue;
    const bool hopper = compute_capability() == 90;
    const auto choose = [&](const auto& why_not, bool claimed, const char* direction, std::map<std::string, int>& served) {
      o.path = Path::hopper;
      AttentionCase asked(o);
      asked.take_gradients();
      const std::string reason = why_not(asked.arguments);
      if (hopper && claimed) {
        EXPECT_EQ(reason, "") << direction << " of " << describe(o);
      }
      if (!hopper || !reason.empty()) o.path = Path::portable;
      ++served[o.path == Path::hopper ? "hopper" : "portable"];
      table.add(o, direction);
    };
    choose([](const auto& a) { return kernels::cuda::attention_forward_why_not(a.problem); }, forward_is_claimed(o), "forward",
           forwards);
    verify_forward(o);
    choose([](const auto& a) { return kernels::cuda::attention_backward_why_not(a); }, backward_is_claimed(o), "backward",
           backwards);
    verify_backward(o, true);
    if (failures() >= kMostFailures) break;
  }
  std::printf("%zu combinations: forward%s; backward%s\n", seen.size(), told(forwards).c_str(), told(backwards).c_str());
  table.print();
  RecordProperty("forward", told(forwards));
  RecordProperty("backward", told(backwards));
  if (failures() < kMostFailures) EXPECT_EQ(static_cast<int>(seen.size()), combinations());
}

}  // namespace
}  // namespace deckle::testing
