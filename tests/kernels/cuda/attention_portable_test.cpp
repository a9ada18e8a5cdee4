// The mma.sync forward and backward against the naive float64 reference.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "deckle/kernels/cuda/attention/portable.h"
#include "tests/kernels/cuda/attention_case.h"

namespace deckle::testing {
namespace {

using kernels::AttentionElement;
using kernels::AttentionMask;
using kernels::kUnboundedWindow;

uint64_t seed() {
  static const uint64_t value = [] {
    const uint64_t random = std::random_device{}() & 0xffffff;
    std::printf("seed %llu\n", static_cast<unsigned long long>(random));
    return random;
  }();
  return value;
}

struct Gradients {
  explicit Gradients(AttentionCase& c)
      : grad_out(c.make_tensor(false, c.options.value_dim)),
        q(c.make_tensor(false, c.options.head_dim)),
        k(c.make_tensor(true, c.options.head_dim)),
        v(c.make_tensor(true, c.options.value_dim)) {
    c.fill(grad_out, 7, 1.0f);
    arguments.problem = c.problem;
    arguments.grad_out = grad_out.tensor;
    arguments.grad_q = q.tensor;
    arguments.grad_k = k.tensor;
    arguments.grad_v = v.tensor;
    const int64_t bytes = kernels::cuda::portable_attention_backward_workspace_bytes(arguments);
    workspace = DeviceBuffer(bytes);
    arguments.problem.workspace = workspace.as<void>();
    arguments.problem.workspace_bytes = bytes;
  }

  void run() {
    kernels::cuda::portable_attention_forward(arguments.problem, nullptr);
    kernels::cuda::portable_attention_backward(arguments, nullptr);
    check(cudaDeviceSynchronize(), "portable attention");
  }

  CaseTensor grad_out, q, k, v;
  DeviceBuffer workspace;
  kernels::AttentionBackward arguments;
};

int64_t count(const CaseTensor& t) { return t.batch * t.rows * t.heads * t.columns; }

void expect_matches_reference(const CaseOptions& options) {
  SCOPED_TRACE(describe(options));
  AttentionCase c(options);
  Gradients g(c);
  g.run();
  DeviceBuffer out(count(c.out) * 8), lse(c.lse_count() * 8), q(count(g.q) * 8), k(count(g.k) * 8), v(count(g.v) * 8);
  reference_forward(c.problem, {out.as<double>(), lse.as<double>()});
  reference_backward(g.arguments, {out.as<double>(), lse.as<double>()}, {q.as<double>(), k.as<double>(), v.as<double>()});
  check(cudaDeviceSynchronize(), "reference");
  EXPECT_LE(relative_error(c.out.values(options.element), out.download<double>()), output_tolerance(options.element));
  // Where every row sees one key at most the softmax is constant, every term of grad_q and grad_k cancels, and nothing relative is left.
  const bool one_key = options.keys == 1 || (options.queries == 1 && !options.mask.bottom_right && options.mask.right == 0);
  const bool cancels = one_key && !options.ragged();
  if (!cancels) {
    EXPECT_LE(relative_error(g.q.values(options.element), q.download<double>()), gradient_tolerance(options.element)) << "grad_q";
    EXPECT_LE(relative_error(g.k.values(options.element), k.download<double>()), gradient_tolerance(options.element)) << "grad_k";
  }
  EXPECT_LE(relative_error(g.v.values(options.element), v.download<double>()), gradient_tolerance(options.element)) << "grad_v";
}

struct Dims {
  AttentionElement element;
  int head_dim, value_dim;
};

class PortableAttention : public ::testing::TestWithParam<Dims> {
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

TEST_P(PortableAttention, MatchesForOddLengthsAndMasks) {
  for (const auto& [queries, keys] : {std::pair{1, 1}, {63, 63}, {65, 65}, {200, 200}, {1, 300}, {130, 67}, {67, 130}, {300, 150}}) {
    for (const AttentionMask& mask : {AttentionMask{}, AttentionMask{kUnboundedWindow, 0, true}, AttentionMask{kUnboundedWindow, 0, false},
                                      AttentionMask{40, 25, true}}) {
      CaseOptions o = base();
      o.queries = queries;
      o.keys = keys;
      o.mask = mask;
      expect_matches_reference(o);
    }
  }
}

TEST_P(PortableAttention, ServesRaggedBatchesGroupedHeadsStridesAndScales) {
  for (const Layout layout : {Layout::rows_outer, Layout::heads_outer, Layout::padded_rows}) {
    CaseOptions o = base();
    o.layout = layout;
    o.heads = 4;
    o.kv_heads = 2;
    o.mask = {kUnboundedWindow, 0, true};
    o.query_lengths = {0, 5, 150, 0, 64, 1, 129, 17, 0};
    o.key_lengths = {3, 9, 120, 0, 0, 130, 200, 17, 0};
    expect_matches_reference(o);
    o.mask = {};
    o.scale = -0.06f;
    expect_matches_reference(o);
  }
}

TEST_P(PortableAttention, KeepsNonFiniteValuesWithinTheirSequence) {
  CaseOptions o = base();
  o.query_lengths = o.key_lengths = {100, 77, 130};
  AttentionCase c(o);
  Gradients g(c);
  g.run();
  const auto clean = std::array{c.out.bits(), g.q.bits(), g.k.bits(), g.v.bits()};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  c.overwrite_sequence(c.q, false, 1, nan);
  c.overwrite_sequence(c.k, true, 1, nan);
  c.overwrite_sequence(c.v, true, 1, nan);
  c.overwrite_sequence(g.grad_out, false, 1, nan);
  for (CaseTensor* t : {&c.out, &g.q, &g.k, &g.v}) t->buffer.poison();
  g.run();
  const auto dirty = std::array{c.out.bits(), g.q.bits(), g.k.bits(), g.v.bits()};
  int64_t differing = 0;
  for (size_t t = 0; t < clean.size(); ++t) {
    const int64_t row = static_cast<int64_t>(clean[t].size()) / 307;
    for (int64_t i = 0; i < 307 * row; ++i) differing += (i / row < 100 || i / row >= 177) && clean[t][i] != dirty[t][i];
  }
  EXPECT_EQ(differing, 0);
}

INSTANTIATE_TEST_SUITE_P(HeadDims, PortableAttention,
                         ::testing::Values(Dims{AttentionElement::bf16, 64, 64}, Dims{AttentionElement::bf16, 96, 96},
                                           Dims{AttentionElement::bf16, 128, 128}, Dims{AttentionElement::bf16, 192, 128},
                                           Dims{AttentionElement::bf16, 256, 256}, Dims{AttentionElement::f16, 64, 64},
                                           Dims{AttentionElement::f16, 80, 48}, Dims{AttentionElement::f16, 128, 128},
                                           Dims{AttentionElement::f16, 256, 256}),
                         [](const auto& info) {
                           const Dims& d = info.param;
                           return std::string(d.element == AttentionElement::bf16 ? "bf16" : "f16") + "_" + std::to_string(d.head_dim) +
                                  "_" + std::to_string(d.value_dim);
                         });

}  // namespace
}  // namespace deckle::testing
