#include "tests/kernels/cuda/attention_test.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

namespace deckle::testing {
namespace {

constexpr uint16_t kPoison = 0xffff;

void expect_close(const AttentionCase& c, const char* what, const CaseTensor& got, const DeviceBuffer& reference,
                  double tolerance) {
  if (got.elements() > 0) {
    const Difference d =
        compare(c.options.element, got.view, reference.as<double>(), got.rows, got.rows_per_batch, got.heads, got.columns);
    // Gradients may cancel to zero (one key: dS = 0): an absolute error of float32 rounding is then all there is.
    const double least_norm = 1e-5 * std::sqrt(static_cast<double>(got.elements())) / tolerance;
    const double relative = std::sqrt(d.error_norm) / std::max(std::sqrt(d.reference_norm), least_norm);
    EXPECT_EQ(d.not_finite, 0u) << what;
    EXPECT_LE(relative, tolerance) << what << ": largest error " << d.largest_error << " of " << d.largest_reference;
    EXPECT_LE(d.largest_error, 6 * tolerance * d.largest_reference + 1e-4) << what;
  }
  const int64_t words = got.memory.bytes() / 2;
  EXPECT_EQ(count_words(got.memory.as<void>(), words, kPoison), static_cast<unsigned long long>(words - got.elements()))
      << what << ": memory around it";
}

// Every row that has a reference is as close as float32 lets it be; the others are untouched.
void expect_lse(const AttentionCase& c) {
  const std::vector<float> got = c.lse.download<float>();
  const std::vector<double> expected = c.reference_lse.download<double>();
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i])) {
      uint32_t bits;
      std::memcpy(&bits, &got[i], sizeof bits);
      EXPECT_EQ(bits, 0xffffffffu) << "log-sum-exp behind the last sequence";
      continue;
    }
    const double difference = got[i] == expected[i] ? 0 : std::abs(got[i] - expected[i]) / (1 + std::abs(expected[i]));
    if (!(difference <= worst)) worst = difference;
  }
  EXPECT_LE(worst, 2e-5) << "log-sum-exp";
}

double value_of(AttentionElement element, uint16_t word) {
  if (element == AttentionElement::bf16) {
    const uint32_t bits = uint32_t{word} << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
  const int exponent = word >> 10 & 31, fraction = word & 1023;
  const double magnitude = exponent == 31  ? NAN
                           : exponent == 0 ? std::ldexp(fraction, -24)
                                           : std::ldexp(1024 + fraction, exponent - 25);
  return word >> 15 != 0 ? -magnitude : magnitude;
}

// Sums that may cancel: as close as their terms are large, all together and each.
void expect_sums(const char* what, const std::vector<double>& got, const DeviceBuffer& reference, double tolerance) {
  if (got.empty()) return;
  const std::vector<double> expected = reference.download<double>();
  double error = 0, terms = 0, worst = 0, largest = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double difference = std::abs(got[i] - expected[i]), magnitude = expected[got.size() + i];
    ASSERT_FALSE(std::isnan(difference)) << what << ": element " << i;
    error += difference * difference;
    terms += magnitude * magnitude;
    worst = std::max(worst, difference);
    largest = std::max(largest, magnitude);
  }
  EXPECT_LE(std::sqrt(error), tolerance * std::sqrt(terms) + 1e-6 * std::sqrt(static_cast<double>(got.size()))) << what;
  EXPECT_LE(worst, 6 * tolerance * largest + 1e-4) << what;
}

}  // namespace

std::vector<Instance> hopper_instances() {
  std::vector<Instance> all;
  for (const AttentionElement element : {AttentionElement::bf16, AttentionElement::f16}) {
    for (const auto& [d, dv] : {std::pair{128, 128}, {64, 64}, {256, 256}, {192, 192}, {192, 128}}) {
      all.push_back({Path::hopper, element, d, dv});
    }
    for (const auto& [d, dv] :
         {std::pair{40, 56}, {80, 80}, {96, 96}, {104, 120}, {136, 96}, {200, 232}}) {  // in a larger kernel
      all.push_back({Path::hopper, element, d, dv});
    }
  }
  return all;
}

std::vector<Instance> portable_instances() {
  std::vector<Instance> all;
  for (const auto& [d, dv] : {std::pair{64, 64}, {96, 96}, {128, 128}, {192, 128}, {256, 256}, {24, 72}}) {
    all.push_back({Path::portable, AttentionElement::bf16, d, dv});
  }
  for (const auto& [d, dv] : {std::pair{64, 64}, {80, 48}, {128, 128}, {256, 256}}) {
    all.push_back({Path::portable, AttentionElement::f16, d, dv});
  }
  return all;
}

std::vector<Instance> scored_instances() {
  std::vector<Instance> all;
  for (const AttentionElement element : {AttentionElement::bf16, AttentionElement::f16}) {
    for (const auto& [d, dv] : {std::pair{64, 64}, {128, 128}, {40, 56}, {96, 120}})
      all.push_back({Path::hopper, element, d, dv});
  }
  return all;
}

std::string name_of(const ::testing::TestParamInfo<Instance>& info) {
  return dims_of(info.param.element, info.param.head_dim, info.param.value_dim, "_");
}

std::vector<CaseOptions> score_features() {
  std::vector<CaseOptions> all(6);
  all[0].soft_cap = all[5].soft_cap = 1.5f;
  all[1].slopes = all[5].slopes = true;
  all[2].dropout = all[5].dropout = {.threshold = 77,
                                     .seed = 0x123456789abcdef0u,
                                     .offset = uint64_t{1} << 40,
                                     .first_sequence = 3,
                                     .first_head = 2,
                                     .first_row = 48,
                                     .first_column = 160};
  all[3].dropout = {.threshold = 256, .seed = 5};
  all[4].dropout = {
      .threshold = 1, .seed = 6, .first_row = (int64_t{5} << 33) + 32, .first_column = int64_t{3} << 34};  // beyond 32 bits
  all[5].sinks = true;
  return all;
}

std::vector<CaseOptions> plane_features() {
  std::vector<CaseOptions> all;
  const auto next = [&]() -> CaseOptions& { return all.emplace_back(); };
  for (const int dims : {15, 7, 3, 9, 2, 0}) next().bias_dims = dims;
  for (const int dims : {3, 7}) {
    next().bias_dims = dims;
    all.back().ragged_bias = true;
  }
  next().bias_dims = 5;
  all.back().ragged_bias = all.back().bias_before_cap = true;
  all.back().soft_cap = 1.5f;
  for (const int reach : {0, 20, 400}) next().table_reach = reach;
  for (const int ranges : {1, 3}) next().ranges = ranges;
  for (const int dims : {15, 6, 1}) next().mask_dims = dims;
  CaseOptions& everything = next();
  everything = score_features().back();
  everything.bias_dims = 7;
  everything.table_reach = 30;
  everything.ranges = 4;
  everything.mask_dims = 11;
  return all;
}

std::vector<CaseOptions> features_of(Path path) {
  std::vector<CaseOptions> all = score_features();
  for (CaseOptions features : plane_features()) {
    if (path == Path::hopper) {  // without what the portable path alone serves
      if (features.mask_dims >= 0) features.mask_dims &= ~4;
      if (features.bias_dims >= 0) features.bias_dims |= 1;
      features.ragged_bias = features.ragged_bias && (features.bias_dims & 2) != 0;
    }
    all.push_back(features);
  }
  return all;
}

std::vector<CaseOptions> far_biases(const CaseOptions& o, bool alone) {
  // bfloat16's least number is the last.
  const std::vector<float> every{-1e4f, -1e8f, -1e9f, -2e9f, -1e10f, -1e30f, -3.3895313892515355e38f};
  std::vector<CaseOptions> all;
  const bool bf16 = o.element == AttentionElement::bf16;  // float16 has -65,504, and tables of float32
  for (const int dims : {15, 3}) {
    for (int i = 0; bf16 && i < (alone ? 2 : 4); ++i) {
      CaseOptions& next = all.emplace_back(o);
      next.bias_dims = dims;
      next.far_biases = every;
      next.sinks = i == 1;
      next.kv_heads = dims == 3 ? 1 : next.kv_heads;
      next.ragged_bias = next.ragged && dims == 3;
      next.soft_cap = i == 2 ? 1.5f : 0;
      if (i == 3) next.dropout = {.threshold = 50, .seed = 9};
    }
  }
  for (size_t i = 0; !alone && i < every.size(); ++i) {
    CaseOptions& next = all.emplace_back(o);
    next.table_reach = i % 2 == 0 ? 30 : 400;
    next.far_table = every[i];
    next.sinks = i == 2;
    next.kv_heads = i % 2 == 0 ? 1 : next.kv_heads;
  }
  return all;
}

CaseOptions with(CaseOptions options, const CaseOptions& features) {
  options.soft_cap = features.soft_cap;
  options.slopes = features.slopes;
  options.dropout = features.dropout;
  options.sinks = features.sinks;
  options.bias_dims = features.bias_dims;
  options.ragged_bias = features.ragged_bias && options.ragged;
  options.bias_before_cap = features.bias_before_cap;
  options.table_reach = features.table_reach;
  options.ranges = features.ranges;
  options.mask_dims = features.mask_dims;
  return options;
}

double output_tolerance(AttentionElement element) { return element == AttentionElement::bf16 ? 4e-3 : 6e-4; }
double gradient_tolerance(AttentionElement element) { return element == AttentionElement::bf16 ? 8e-3 : 1.2e-3; }

void expect_forward(const AttentionCase& c, double tolerance) {
  SCOPED_TRACE(describe(c.options));
  expect_close(c, "out", c.out, c.reference_out, tolerance);
  expect_lse(c);
}

void expect_backward(const AttentionCase& c, double tolerance) {
  SCOPED_TRACE(describe(c.options));
  expect_close(c, "grad_q", c.grad_q, c.reference_q, tolerance);
  expect_close(c, "grad_k", c.grad_k, c.reference_k, tolerance);
  expect_close(c, "grad_v", c.grad_v, c.reference_v, tolerance);
  const auto expect_heads = [&](const char* what, const DeviceBuffer& gradient, const DeviceBuffer& reference) {
    const std::vector<float> got = gradient.download<float>();
    const std::vector<double> expected = reference.download<double>();
    for (size_t h = 0; h < got.size(); ++h) {
      EXPECT_LE(std::abs(got[h] - expected[h]), tolerance * expected[got.size() + h] + 1e-6) << what << " of head " << h;
    }
  };
  expect_heads("grad_sinks", c.grad_sinks, c.reference_sinks);
  expect_heads("grad_slopes", c.grad_slopes, c.reference_slopes);
  std::vector<double> bias;
  for (const uint16_t word : c.grad_bias.download<uint16_t>()) bias.push_back(value_of(c.options.element, word));
  const std::vector<float> table = c.grad_table.download<float>();
  expect_sums("grad_bias", bias, c.reference_bias, tolerance);
  expect_sums("grad_table", {table.begin(), table.end()}, c.reference_table, tolerance);
}

void verify_forward(const CaseOptions& options) {
  AttentionCase c(options);
  c.reference();
  c.forward();
  expect_forward(c, output_tolerance(options.element));
}

void verify_backward(const CaseOptions& options, bool given_forward) {
  AttentionCase c(options);
  c.prepare_backward(given_forward);
  c.poison_dead_rows();
  c.backward();
  expect_backward(c, gradient_tolerance(options.element));
}

unsigned long long different_outside(const AttentionCase& c, const CaseTensor& a, const CaseTensor& b, int sequence) {
  const int64_t begin = c.first_row(a, sequence), end = begin + c.length(a, sequence);
  return count_different(a.view, b.view, 0, begin, a.heads, a.columns) +
         count_different(a.view, b.view, end, a.rows - end, a.heads, a.columns);
}

unsigned long long different(const CaseTensor& a, const CaseTensor& b) {
  return count_different(a.view, b.view, 0, a.rows, a.heads, a.columns);
}

void AttentionTest::SetUp() {
  const int found = compute_capability();
  const bool runs = GetParam().path == Path::hopper ? found == 90 : found >= 80;
  if (!runs) {
    GTEST_SKIP() << "needs a GPU of compute capability " << (GetParam().path == Path::hopper ? "9.0" : "8.0 or newer")
                 << ", here is " << (found == 0 ? "none" : std::to_string(found / 10) + "." + std::to_string(found % 10));
  }
}

CaseOptions AttentionTest::base() const {
  CaseOptions o;
  o.path = GetParam().path;
  o.element = GetParam().element;
  o.head_dim = GetParam().head_dim;
  o.value_dim = GetParam().value_dim;
  return o;
}

CaseOptions AttentionTest::dense(int batch, int queries, int keys, AttentionWindow mask) const {
  CaseOptions o = base();
  o.queries.assign(batch, queries);
  o.keys.assign(batch, keys);
  o.mask = mask;
  return o;
}

CaseOptions AttentionTest::ragged(std::vector<int> queries, std::vector<int> keys, AttentionWindow mask) const {
  CaseOptions o = base();
  o.ragged = true;
  o.queries = std::move(queries);
  o.keys = std::move(keys);
  o.mask = mask;
  return o;
}

std::vector<CaseOptions> AttentionTest::feature_cases() const {
  std::vector<CaseOptions> all;
  for (const CaseOptions& features : features_of(GetParam().path)) {
    for (const AttentionWindow& mask : {kFull, kCausal, AttentionWindow{60, 25, false}}) {
      all.push_back(with(dense(2, 150, 333, mask), features));
      CaseOptions o = ragged({0, 5, 300, 64, 129}, {4, 0, 120, 64, 400}, mask);
      o.spare = {3, 0, 60, 0, 17};
      all.push_back(with(o, features));
    }
    CaseOptions o = dense(1, 70, 200, kCausal);
    o.heads = 6;
    o.kv_heads = 2;
    o.scale = -0.07f;
    o.layout = Layout::padded;
    all.push_back(with(o, features));
  }
  return all;
}

}  // namespace deckle::testing
