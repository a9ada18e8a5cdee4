// The Hopper forward against a naive float64 reference on the GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "deckle/kernels/cuda/attention/forward.h"
#include "tests/kernels/cuda/attention_case.h"

namespace deckle::testing {
namespace {

using kernels::AttentionElement;
using kernels::AttentionMask;
using kernels::kUnboundedWindow;

constexpr AttentionMask kFull{};
constexpr AttentionMask kCausal{kUnboundedWindow, 0, true};
constexpr AttentionMask kCausalTopLeft{kUnboundedWindow, 0, false};

uint64_t seed() {
  static const uint64_t value = [] {
    const uint64_t random = std::random_device{}() & 0xffffff;
    std::printf("seed %llu\n", static_cast<unsigned long long>(random));
    return random;
  }();
  return value;
}

void run(AttentionCase& c) {
  const int64_t bytes = kernels::cuda::attention_forward_workspace_bytes(c.problem);
  if (c.workspace.bytes() < bytes) c.workspace = DeviceBuffer(bytes);
  c.problem.workspace = c.workspace.as<void>();
  c.problem.workspace_bytes = c.workspace.bytes();
  kernels::cuda::attention_forward(c.problem, nullptr);
  check(cudaDeviceSynchronize(), "attention_forward");
}

std::vector<double> widen(const std::vector<float>& x) { return {x.begin(), x.end()}; }

void expect_matches_reference(const CaseOptions& options) {
  SCOPED_TRACE(describe(options));
  AttentionCase c(options);
  run(c);
  DeviceBuffer out(c.out.rows * c.out.batch * c.out.heads * c.out.columns * 8), lse(c.lse_count() * 8);
  reference_forward(c.problem, {out.as<double>(), lse.as<double>()});
  check(cudaDeviceSynchronize(), "reference");
  const double error = relative_error(c.out.values(options.element), out.download<double>());
  EXPECT_LE(error, output_tolerance(options.element));
  const std::vector<double> got = widen(c.lse.download<float>()), expected = lse.download<double>();
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = got[i] == expected[i] ? 0 : std::abs(got[i] - expected[i]) / (1 + std::abs(expected[i]));
    if (!(difference <= worst)) worst = difference;
  }
  EXPECT_LE(worst, 2e-5) << "log-sum-exp";
}

struct Dims {
  AttentionElement element;
  int head_dim, value_dim;
};

class AttentionForward : public ::testing::TestWithParam<Dims> {
 protected:
  CaseOptions base() const {
    CaseOptions o;
    o.element = GetParam().element;
    o.head_dim = GetParam().head_dim;
    o.value_dim = GetParam().value_dim;
    o.seed = seed();
    return o;
  }
};

TEST_P(AttentionForward, MatchesForEveryLength) {
  for (const int queries : {1, 2, 7, 63, 64, 65, 127, 128, 129, 191, 193, 200, 385, 511, 1000}) {
    CaseOptions o = base();
    o.queries = queries;
    o.keys = queries;
    o.seed += queries;
    expect_matches_reference(o);
    o.mask = kCausal;
    expect_matches_reference(o);
  }
}

TEST_P(AttentionForward, MatchesForQueriesAndKeysOfDifferentLength) {
  for (const auto& [queries, keys] : {std::pair{1, 1000}, {1000, 1}, {130, 67}, {67, 130}, {300, 700}, {700, 300}, {64, 513}}) {
    for (const AttentionMask& mask : {kFull, kCausal, kCausalTopLeft, AttentionMask{40, 25, true}, AttentionMask{40, 25, false}}) {
      CaseOptions o = base();
      o.batch = 2;
      o.queries = queries;
      o.keys = keys;
      o.mask = mask;
      expect_matches_reference(o);
    }
  }
}

TEST_P(AttentionForward, ServesWindows) {
  for (const auto& [left, right] : {std::pair{0, 0}, {1, 0}, {128, 0}, {100, 100}, {300, 3}, {3, 300}, {-5, 20}, {20, -5}}) {
    CaseOptions o = base();
    o.queries = o.keys = 777;
    o.mask = {left, right, true};
    expect_matches_reference(o);
  }
}

TEST_P(AttentionForward, ServesGroupedHeadsStridesAndScales) {
  for (const Layout layout : {Layout::rows_outer, Layout::heads_outer, Layout::padded_rows}) {
    CaseOptions o = base();
    o.layout = layout;
    o.batch = 3;
    o.heads = 6;
    o.kv_heads = 2;
    o.queries = 210;
    o.keys = 333;
    o.mask = kCausal;
    expect_matches_reference(o);
    o.kv_heads = 1;
    o.scale = -0.07f;
    expect_matches_reference(o);
    o.scale = 1e-20f;
    expect_matches_reference(o);
  }
}

TEST_P(AttentionForward, ServesRaggedBatchesWithEmptySequences) {
  for (const AttentionMask& mask : {kFull, kCausal, kCausalTopLeft, AttentionMask{50, 20, true}}) {
    CaseOptions o = base();
    o.mask = mask;
    o.query_lengths = {0, 5, 300, 0, 64, 1, 0, 129, 17, 450, 0};
    o.key_lengths = {0, 5, 300, 0, 64, 1, 0, 129, 17, 450, 0};
    expect_matches_reference(o);
    o.key_lengths = {4, 9, 120, 0, 0, 300, 7, 200, 17, 1, 0};
    o.heads = 4;
    o.layout = Layout::padded_rows;
    expect_matches_reference(o);
    o.query_lengths = {1};
    o.key_lengths = {0};
    expect_matches_reference(o);
  }
}

TEST_P(AttentionForward, ServesManySequencesOfRandomLength) {
  std::mt19937 random(seed());
  CaseOptions o = base();
  for (int i = 0; i < 300; ++i) {
    o.query_lengths.push_back(static_cast<int>(random() % 90));
    o.key_lengths.push_back(static_cast<int>(random() % 90));
  }
  o.query_lengths[77] = 1500;
  o.key_lengths[78] = 1300;
  expect_matches_reference(o);
  o.mask = kCausal;
  o.key_lengths = o.query_lengths;
  expect_matches_reference(o);
}

TEST_P(AttentionForward, KeepsNonFiniteValuesWithinTheirSequence) {
  for (const float poison : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    CaseOptions o = base();
    o.query_lengths = {100, 77, 210};
    o.key_lengths = {90, 77, 230};
    AttentionCase c(o);
    run(c);
    const auto clean = c.out.bits();
    const auto clean_lse = c.lse.download<uint32_t>();
    c.overwrite_sequence(c.q, false, 1, poison);
    c.overwrite_sequence(c.k, true, 1, poison);
    c.overwrite_sequence(c.v, true, 1, poison);
    c.out.buffer.poison();
    run(c);
    const auto dirty = c.out.bits();
    const auto dirty_lse = c.lse.download<uint32_t>();
    const int64_t row = c.out.heads * c.out.columns;
    int64_t differing = 0;
    for (int64_t r = 0; r < c.out.rows; ++r) {
      if (r >= 100 && r < 177) continue;
      for (int64_t i = 0; i < row; ++i) differing += clean[r * row + i] != dirty[r * row + i];
      for (int h = 0; h < o.heads; ++h) differing += clean_lse[h * c.out.rows + r] != dirty_lse[h * c.out.rows + r];
    }
    EXPECT_EQ(differing, 0);
  }
}

TEST_P(AttentionForward, SurvivesExtremeLogits) {
  CaseOptions o = base();
  o.queries = 150;
  o.keys = 260;
  o.scale = 1.0f;
  o.magnitude = 30.0f;  // logits of about ±1e4 at D = 128
  SCOPED_TRACE(describe(o));
  AttentionCase c(o);
  run(c);
  DeviceBuffer out(c.out.rows * c.out.heads * c.out.columns * 8), lse(c.lse_count() * 8);
  reference_forward(c.problem, {out.as<double>(), lse.as<double>()});
  EXPECT_LE(relative_error(c.out.values(o.element), out.download<double>()), 2 * output_tolerance(o.element));
}

TEST_P(AttentionForward, AddsUpThePartsOfALastWaveInOneOrder) {
  for (const int keys : {2700, 4097}) {
    CaseOptions o = base();
    o.queries = 300;
    o.keys = keys;
    o.heads = o.kv_heads = 3;
    expect_matches_reference(o);
    AttentionCase c(o);
    run(c);
    const auto first = c.out.bits();
    for (int i = 0; i < 10; ++i) {
      c.out.buffer.poison();
      run(c);
      ASSERT_EQ(first, c.out.bits());
    }
  }
}

TEST_P(AttentionForward, IsBitEqualFromRunToRun) {
  CaseOptions o = base();
  o.query_lengths = o.key_lengths = {700, 3, 64, 900, 0, 250};
  o.mask = kCausal;
  AttentionCase c(o);
  run(c);
  const auto first = c.out.bits();
  for (int i = 0; i < 20; ++i) {
    c.out.buffer.poison();
    run(c);
    ASSERT_EQ(first, c.out.bits());
  }
}

INSTANTIATE_TEST_SUITE_P(HeadDims, AttentionForward,
                         ::testing::Values(Dims{AttentionElement::bf16, 128, 128}, Dims{AttentionElement::bf16, 64, 64},
                                           Dims{AttentionElement::bf16, 256, 256}, Dims{AttentionElement::bf16, 96, 96},
                                           Dims{AttentionElement::bf16, 192, 192}, Dims{AttentionElement::bf16, 192, 128},
                                           Dims{AttentionElement::f16, 128, 128}, Dims{AttentionElement::f16, 64, 64},
                                           Dims{AttentionElement::f16, 256, 256}, Dims{AttentionElement::f16, 96, 96},
                                           Dims{AttentionElement::f16, 192, 192}, Dims{AttentionElement::f16, 192, 128}),
                         [](const auto& info) {
                           const Dims& d = info.param;
                           return std::string(d.element == AttentionElement::bf16 ? "bf16" : "f16") + "_" + std::to_string(d.head_dim) +
                                  "_" + std::to_string(d.value_dim);
                         });

TEST(AttentionForwardRefusals, NameWhatIsServed) {
  CaseOptions o;
  o.head_dim = 80;
  o.value_dim = 80;
  AttentionCase c(o);
  EXPECT_NE(kernels::cuda::attention_forward_why_not(c.problem).find("D = 80, Dv = 80 (serves 64/64"), std::string::npos);
  EXPECT_THROW(kernels::cuda::attention_forward(c.problem, nullptr), std::runtime_error);
}

TEST(AttentionForwardLarge, AddressesMoreThanTwoToThe31Elements) {
  CaseOptions o;  // 66,400 x 256 x 128 = 2.2e9 elements of q; checked on the last sequence, where offsets are largest
  o.query_lengths = {66000, 400};
  o.key_lengths = {64, 70};
  o.heads = 256;
  o.kv_heads = 256;
  o.seed = seed();
  AttentionCase c(o);
  run(c);
  CaseOptions small = o;
  small.query_lengths = {400};
  small.key_lengths = {70};
  AttentionCase s(small);
  const int64_t row = 256 * 128;
  check(cudaMemcpy(s.q.tensor.data, c.q.buffer.as<uint16_t>() + 66000 * row, 400 * row * 2, cudaMemcpyDeviceToDevice), "copy");
  check(cudaMemcpy(s.k.tensor.data, c.k.buffer.as<uint16_t>() + 64 * row, 70 * row * 2, cudaMemcpyDeviceToDevice), "copy");
  check(cudaMemcpy(s.v.tensor.data, c.v.buffer.as<uint16_t>() + 64 * row, 70 * row * 2, cudaMemcpyDeviceToDevice), "copy");
  run(s);
  std::vector<uint16_t> large(400 * row);
  check(cudaMemcpy(large.data(), c.out.buffer.as<uint16_t>() + 66000 * row, large.size() * 2, cudaMemcpyDeviceToHost), "copy");
  EXPECT_TRUE(large == s.out.bits());
}

}  // namespace
}  // namespace deckle::testing
