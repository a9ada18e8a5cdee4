#include "tests/kernels/cuda/attention_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "deckle/kernels/cuda/attention/backward.h"
#include "deckle/kernels/cuda/attention/forward.h"
#include "deckle/kernels/cuda/attention/portable.h"
#include "tests/kernels/cuda/attention_reference.h"
#include "tests/kernels/cuda/seed.h"

namespace deckle::testing {
namespace {

constexpr uint16_t kPoison = 0xffff;
constexpr uint16_t kNan = 0x7fff;  // another one, so that poison still means untouched

std::string dims_of(AttentionElement element, int head_dim, int value_dim, const char* between) {
  return std::string(element == AttentionElement::bf16 ? "bf16" : "f16") + between + std::to_string(head_dim) +
         (head_dim == value_dim ? "" : between + std::to_string(value_dim));
}

ReferenceForward reference_of(const AttentionCase& c) { return {c.reference_out.as<double>(), c.reference_lse.as<double>()}; }

void expect_close(const AttentionCase& c, const char* what, const CaseTensor& got, const DeviceBuffer& reference, double tolerance) {
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

}  // namespace

std::vector<Instance> hopper_instances() {
  std::vector<Instance> all;
  for (const AttentionElement element : {AttentionElement::bf16, AttentionElement::f16}) {
    for (const auto& [d, dv] : {std::pair{128, 128}, {64, 64}, {256, 256}, {96, 96}, {192, 192}, {192, 128}}) {
      all.push_back({Path::hopper, element, d, dv});
    }
  }
  return all;
}

std::vector<Instance> portable_instances() {
  std::vector<Instance> all;
  for (const auto& [d, dv] : {std::pair{64, 64}, {96, 96}, {128, 128}, {192, 128}, {256, 256}}) {
    all.push_back({Path::portable, AttentionElement::bf16, d, dv});
  }
  for (const auto& [d, dv] : {std::pair{64, 64}, {80, 48}, {128, 128}, {256, 256}}) {
    all.push_back({Path::portable, AttentionElement::f16, d, dv});
  }
  return all;
}

std::string name_of(const ::testing::TestParamInfo<Instance>& info) {
  return dims_of(info.param.element, info.param.head_dim, info.param.value_dim, "_");
}

std::string describe(const CaseOptions& o) {
  std::string text = dims_of(o.element, o.head_dim, o.value_dim, " ") + ", heads " + std::to_string(o.heads) + "/" +
                     std::to_string(o.kv_heads) + (o.ragged ? ", ragged" : ", dense");
  for (size_t i = 0; i < o.queries.size() && i < 12; ++i) text += " " + std::to_string(o.queries[i]) + "x" + std::to_string(o.keys[i]);
  return text + ", window " + std::to_string(o.mask.left) + "," + std::to_string(o.mask.right) +
         (o.mask.bottom_right ? " bottom right" : " top left") + ", layout " + std::to_string(static_cast<int>(o.layout)) + ", scale " +
         std::to_string(o.scale) + (o.deterministic ? "" : ", unordered") + ", seed " + std::to_string(seed());
}

CaseOptions random_options(CaseOptions o, std::mt19937_64& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  o.ragged = below(2) == 1;
  o.kv_heads = 1 + below(3);
  o.heads = o.kv_heads * (1 + below(3));
  o.grad_lse = below(2) == 1;
  o.layout = static_cast<Layout>(below(3));
  o.mask.bottom_right = below(2) == 1;
  if (below(2) == 1) o.mask.left = below(300);
  if (below(2) == 1) o.mask.right = below(200) - 50;
  const int batch = 1 + below(4), queries = 1 + below(500), keys = 1 + below(500);
  for (int b = 0; b < batch; ++b) {
    o.queries.push_back(o.ragged ? below(400) : queries);
    o.keys.push_back(o.ragged ? below(400) : keys);
  }
  return o;
}

CaseTensor CaseTensor::copy() const {
  CaseTensor other{view, rows, rows_per_batch, heads, columns, DeviceBuffer(memory.bytes())};
  other.view.data = other.memory.as<void>();
  if (memory.bytes() > 0) check(cudaMemcpy(other.view.data, view.data, memory.bytes(), cudaMemcpyDeviceToDevice), "cudaMemcpy");
  return other;
}

AttentionCase::AttentionCase(const CaseOptions& given) : options(given) {
  const auto batch = static_cast<int>(options.queries.size());
  for (int b = 0; b < batch; ++b) {
    query_starts_.push_back(query_starts_.back() + options.queries[b]);
    key_starts_.push_back(key_starts_.back() + options.keys[b]);
  }
  problem.element = options.element;
  problem.mask = options.mask;
  problem.scale = options.scale != 0 ? options.scale : 1.0f / std::sqrt(static_cast<float>(options.head_dim));
  auto& sizes = problem.sizes;
  sizes.batch = batch;
  sizes.heads = options.heads;
  sizes.kv_heads = options.kv_heads;
  sizes.head_dim = options.head_dim;
  sizes.value_dim = options.value_dim;
  if (options.ragged) {  // rows behind the last sequence belong to nobody
    sizes.query_rows = query_starts_.back() + 5;
    sizes.key_rows = key_starts_.back() + 3;
    std::vector<int64_t> both = query_starts_;
    both.insert(both.end(), key_starts_.begin(), key_starts_.end());
    offsets_ = DeviceBuffer(static_cast<int64_t>(8 * both.size()));
    offsets_.upload(both);
    sizes.query_offsets = offsets_.as<int64_t>();
    sizes.key_offsets = sizes.query_offsets + batch + 1;
  } else {
    sizes.query_rows = batch > 0 ? options.queries[0] : 0;
    sizes.key_rows = batch > 0 ? options.keys[0] : 0;
  }
  q = make_tensor(false, options.head_dim);
  k = make_tensor(true, options.head_dim);
  v = make_tensor(true, options.value_dim);
  out = make_tensor(false, options.value_dim);
  const auto fill = [&](const CaseTensor& t, int stream, float magnitude) {
    fill_normal(options.element, t.view, t.rows, t.rows_per_batch, t.heads, t.columns, seed() + stream, magnitude);
  };
  fill(q, 1, options.magnitude);
  fill(k, 2, options.magnitude);
  fill(v, 3, 1);
  problem.q = q.view;
  problem.k = k.view;
  problem.v = v.view;
  problem.out = out.view;
  lse = DeviceBuffer(4 * sizes.heads * sizes.query_rows * (options.ragged ? 1 : batch));
  problem.lse = lse.as<float>();
}

CaseTensor AttentionCase::make_tensor(bool key_side, int columns) const {
  const auto& sizes = problem.sizes;
  const int64_t rows = key_side ? sizes.key_rows : sizes.query_rows;  // of a batch, and behind the last sequence
  CaseTensor t;
  t.rows = key_side ? key_starts_.back() : query_starts_.back();
  t.rows_per_batch = options.ragged ? std::max<int64_t>(t.rows, 1) : std::max<int64_t>(rows, 1);
  t.heads = key_side ? sizes.kv_heads : sizes.heads;
  t.columns = columns;
  const int padding = options.layout == Layout::padded ? 8 : 0;
  t.view.head_stride = columns + padding;
  t.view.row_stride = t.heads * t.view.head_stride + 3 * padding;
  if (options.layout == Layout::heads_outer) {
    t.view.row_stride = columns;
    t.view.head_stride = rows * columns;
  }
  const int64_t words = options.layout == Layout::heads_outer ? t.heads * t.view.head_stride : rows * t.view.row_stride;
  t.view.batch_stride = words + 8 * padding + options.batch_gap;
  const int64_t batches = options.ragged ? 1 : sizes.batch;
  t.memory = DeviceBuffer(words == 0 || batches == 0 ? 0 : 2 * ((batches - 1) * t.view.batch_stride + words));
  t.view.data = t.memory.as<void>();
  return t;
}

void AttentionCase::take_workspace(int64_t bytes) {
  if (workspace_.bytes() < bytes) workspace_ = DeviceBuffer(bytes);
  workspace_.poison();
  problem.workspace = workspace_.as<void>();
  problem.workspace_bytes = workspace_.bytes();
}

void AttentionCase::forward() {
  out.memory.poison();
  lse.poison();
  if (options.path == Path::hopper) {
    take_workspace(kernels::cuda::attention_forward_workspace_bytes(problem));
    kernels::cuda::attention_forward(problem, nullptr);
  } else {
    kernels::cuda::portable_attention_forward(problem, nullptr);
  }
  check(cudaDeviceSynchronize(), "forward");
}

void AttentionCase::backward() {
  for (CaseTensor* t : {&grad_q, &grad_k, &grad_v}) t->memory.poison();
  if (options.path == Path::hopper) {
    take_workspace(kernels::cuda::attention_backward_workspace_bytes(arguments));
    kernels::cuda::attention_backward(arguments, nullptr);
  } else {
    take_workspace(kernels::cuda::portable_attention_backward_workspace_bytes(arguments));
    kernels::cuda::portable_attention_backward(arguments, nullptr);
  }
  check(cudaDeviceSynchronize(), "backward");
}

void AttentionCase::reference() {
  reference_out = DeviceBuffer(8 * std::max<int64_t>(out.elements(), 1));
  reference_lse = DeviceBuffer(2 * std::max<int64_t>(lse.bytes(), 1));
  reference_forward(problem, reference_of(*this));
  check(cudaDeviceSynchronize(), "reference of the forward");
}

void AttentionCase::take_gradients() {
  grad_out = make_tensor(false, options.value_dim);
  grad_q = make_tensor(false, options.head_dim);
  grad_k = make_tensor(true, options.head_dim);
  grad_v = make_tensor(true, options.value_dim);
  grad_lse = DeviceBuffer(lse.bytes());
  fill_normal(options.element, grad_out.view, grad_out.rows, grad_out.rows_per_batch, grad_out.heads, grad_out.columns, seed() + 4, 1);
  fill_normal(grad_lse.as<float>(), grad_lse.bytes() / 4, seed() + 5, 1);
  arguments.deterministic = options.deterministic;
  arguments.grad_out = grad_out.view;
  arguments.grad_lse = options.grad_lse ? grad_lse.as<float>() : nullptr;
  arguments.grad_q = grad_q.view;
  arguments.grad_k = grad_k.view;
  arguments.grad_v = grad_v.view;
}

void AttentionCase::prepare_backward(bool given_forward) {
  take_gradients();
  reference();
  store_forward(problem, reference_of(*this));
  if (given_forward) load_forward(problem, reference_of(*this));
  reference_q = DeviceBuffer(8 * grad_q.elements());
  reference_k = DeviceBuffer(8 * grad_k.elements());
  reference_v = DeviceBuffer(8 * grad_v.elements());
  reference_backward(arguments, reference_of(*this), {reference_q.as<double>(), reference_k.as<double>(), reference_v.as<double>()});
  check(cudaDeviceSynchronize(), "reference of the backward");
}

int64_t AttentionCase::first_row(const CaseTensor& t, int sequence) const { return (is_key_side(t) ? key_starts_ : query_starts_)[sequence]; }

int64_t AttentionCase::length(const CaseTensor& t, int sequence) const {
  return (is_key_side(t) ? options.keys : options.queries)[sequence];
}

void AttentionCase::overwrite(const CaseTensor& t, int sequence, uint16_t word) const {
  fill_words(t.view, first_row(t, sequence), length(t, sequence), t.heads, t.columns, word);
}

void AttentionCase::poison_dead_rows() const {
  const AttentionMask& mask = options.mask;
  for (size_t b = 0; b < options.queries.size(); ++b) {
    const int64_t queries = options.queries[b], keys = options.keys[b];
    kernels::AttentionTensor t = grad_out.view;
    if (!options.ragged) t.data = static_cast<uint16_t*>(t.data) + static_cast<int64_t>(b) * t.batch_stride;
    for (int64_t row = 0; row < queries; ++row) {
      const int64_t center = row + (mask.bottom_right ? keys - queries : 0);
      const bool dead = keys == 0 || center - mask.left > keys - 1 || center + mask.right < 0 || -int64_t{mask.left} > mask.right;
      if (dead) fill_words(t, (options.ragged ? query_starts_[b] : 0) + row, 1, grad_out.heads, grad_out.columns, kNan);
    }
  }
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
}

void verify_forward(const CaseOptions& options) {
  AttentionCase c(options);
  c.reference();
  c.forward();
  expect_forward(c, output_tolerance(options.element));
}

void verify_backward(const CaseOptions& options) {
  AttentionCase c(options);
  c.prepare_backward();
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
    GTEST_SKIP() << "needs a GPU of compute capability " << (GetParam().path == Path::hopper ? "9.0" : "8.0 or newer") << ", here is "
                 << (found == 0 ? "none" : std::to_string(found / 10) + "." + std::to_string(found % 10));
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

CaseOptions AttentionTest::dense(int batch, int queries, int keys, AttentionMask mask) const {
  CaseOptions o = base();
  o.queries.assign(batch, queries);
  o.keys.assign(batch, keys);
  o.mask = mask;
  return o;
}

CaseOptions AttentionTest::ragged(std::vector<int> queries, std::vector<int> keys, AttentionMask mask) const {
  CaseOptions o = base();
  o.ragged = true;
  o.queries = std::move(queries);
  o.keys = std::move(keys);
  o.mask = mask;
  return o;
}

}  // namespace deckle::testing
