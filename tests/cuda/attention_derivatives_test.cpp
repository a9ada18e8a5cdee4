// Every derivative of attention on a GPU through the public functions: against central differences, and against the CPU's of the
// same numbers.
#include "deckle/attention/attention.h"
#include "deckle/core/allocator.h"
#include "deckle/functional/gradcheck.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/cuda/every_derivative.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"
#include "tests/support/sanitizers.h"

namespace deckle {
namespace {

using testing::every_derivative;
using testing::expect_close;
using testing::Leaves;
using testing::like;
using testing::random_tensor;

template <typename F>
void expect_the_cpus(F&& f, const Leaves& x, double tolerance) {
  const Leaves t = like(x), u = like(x), du = like(x), dy = like(f(x));
  const auto expected = every_derivative(f, x, t, u, dy, du, Device{}), got = every_derivative(f, x, t, u, dy, du, kGpu);
  for (size_t n = 0; n < expected.size(); ++n) {
    for (size_t i = 0; i < expected[n].size(); ++i) {
      SCOPED_TRACE(std::string(testing::kDerivatives[n]) + ", part " + std::to_string(i));
      EXPECT_EQ(got[n][i].device(), kGpu);
      expect_close(got[n][i], expected[n][i], tolerance, tolerance);
    }
  }
}

struct Setting {
  const char* name;
  AttentionMask mask;
  double soft_cap = 0, dropout = 0;
  bool before_cap = false;
  Dims bias = {};
};

TEST(CudaAttentionDerivatives, DenseAreTheCpus) {
  NEEDS_GPU();
  const Setting settings[] = {{"full", masks::full()},
                              {"causal, cap", masks::causal(), 1.5},
                              {"window, dropout", masks::window<Alignment::top_left>(30, 5), 0, 0.3},
                              {"causal or prefix, bias", masks::causal() || masks::prefix(7), 0, 0, false, {2, 4, 70, 90}},
                              {"shared bias before the cap, dropout", masks::full(), 2, 0.5, true, {1, 1, 70, 90}},
                              {"bias of keys", masks::causal(), 0, 0.1, false, {2, 1, 1, 90}},
                              {"bias of rows", masks::causal(), 0, 0, false, {1, 4, 70, 1}}};
  for (const DType dtype : {DType::float64, DType::float32}) {
    for (const Setting& s : settings) {
      SCOPED_TRACE(std::string(name(dtype)) + ", " + s.name);
      const Dims bias = s.bias.empty() ? Dims{1, 1, 1, 1} : s.bias;
      const Leaves x = {random_tensor({2, 70, 4, 33}, dtype),
                        random_tensor({2, 90, 2, 33}, dtype),
                        random_tensor({2, 90, 2, 20}, dtype),
                        random_tensor(bias, dtype),
                        random_tensor({4}, dtype),
                        random_tensor({4}, dtype),
                        random_tensor({4, 13}, dtype)};
      const auto f = [&](const Leaves& at) -> Leaves {
        Generator generator(7);  // the same stream in every call
        AttentionOptions options{.mask = s.mask,
                                 .bias = at[3],
                                 .bias_before_cap = s.before_cap,
                                 .slopes = mul(at[4], 0.1),
                                 .table = at[6],
                                 .sinks = at[5],
                                 .soft_cap = s.soft_cap,
                                 .dropout = s.dropout,
                                 .generator = &generator};
        const auto [out, lse] = attention_with_lse(at[0], at[1], at[2], options);
        return {out, lse};
      };
      expect_the_cpus(f, x, dtype == DType::float64 ? 1e-9 : 5e-3);
      if (HasFailure()) return;
    }
  }
}

TEST(CudaAttentionDerivatives, RaggedAreTheCpus) {
  NEEDS_GPU();
  const Ragged rows = Ragged::from_lengths(std::vector<int64_t>{3, 0, 70, 64, 1}),
               keys = Ragged::from_lengths(std::vector<int64_t>{5, 2, 66, 0, 130});
  for (const std::vector<int64_t>& lengths : {std::vector<int64_t>{}, std::vector<int64_t>{4, 0, 66, 0, 99}}) {
    const Leaves x = {random_tensor({138, 2, 16}), random_tensor({203, 1, 16}), random_tensor({203, 1, 16})};
    const auto f = [&](const Leaves& at) -> Leaves {
      return {attention(NestedTensor(at[0], rows), NestedTensor(at[1], keys), NestedTensor(at[2], keys),
                        {.mask = masks::causal(), .key_lengths = lengths})
                  .values()};
    };
    expect_the_cpus(f, x, 1e-9);
  }
}

TEST(CudaAttentionDerivatives, AgreeWithCentralDifferences) {
  NEEDS_GPU();
  const GradcheckOptions options{.absolute = 2e-5, .relative = 1e-3};
  const Tensor q = random_tensor({1, 3, 2, 2}), k = random_tensor({1, 4, 1, 2}), v = random_tensor({1, 4, 1, 3});
  const Tensor bias = random_tensor({1, 1, 3, 4}), slopes = random_tensor({2}), sinks = random_tensor({2}),
               table = random_tensor({2, 5});
  const auto f = [&](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d, const Tensor& e, const Tensor& g,
                     const Tensor& h) {
    const auto [out, lse] = attention_with_lse(a.to(kGpu), b.to(kGpu), c.to(kGpu),
                                               {.mask = masks::causal(),
                                                .bias = d.to(kGpu),
                                                .slopes = e.to(kGpu),
                                                .table = h.to(kGpu),
                                                .sinks = g.to(kGpu),
                                                .soft_cap = 1.5});
    return std::tuple(out.to(Device{}), lse.to(Device{}));
  };
  const auto x = std::tuple(q, k, v, bias, slopes, sinks, table);
  gradcheck(f, x, options);
  forward_gradcheck(f, x, options);
  gradgradcheck(f, x, options);
  forward_gradgradcheck(f, x, options);
}

TEST(CudaAttentionDerivatives, SixteenBitsHaveAllOfThem) {
  NEEDS_GPU();
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    for (const int64_t dim : {64, 20}) {  // of 20 columns, copied to 24
      const Leaves x = {random_tensor({1, 100, 2, dim}, dtype), random_tensor({1, 100, 2, dim}, dtype),
                        random_tensor({1, 100, 2, dim}, dtype)};
      const auto f = [&](const Leaves& at) -> Leaves { return {attention(at[0], at[1], at[2], {.mask = masks::causal()})}; };
      expect_the_cpus(f, x, 0.1);
    }
  }
}

TEST(CudaAttentionDerivatives, MemoryIsLinearInTheLength) {
  NEEDS_GPU();
  const auto peak = [](int64_t length) {
    const auto draw = [&] { return random_tensor({1, length, 1, 8}, DType::float32).to(kGpu).detach(); };
    const Tensor x = draw(), t = draw(), slopes = random_tensor({1}, DType::float32).to(kGpu).detach();
    const AttentionOptions options{.mask = masks::causal(), .slopes = slopes, .soft_cap = 9, .dropout = 0.1};
    const auto f = [&](const Tensor& q) { return attention(q, x, x, options); };
    const int64_t before = memory_stats(kGpu).in_use;
    reset_peak_memory(kGpu);
    hvp([&](const Tensor& q) { return sum(square(f(q))); }, x, t);
    jvp([&](const Tensor& q) { return jvp(f, q, t).second; }, x, t);
    grad([&](const Tensor& q) { return sum(square(grad([&](const Tensor& y) { return sum(square(f(y))); }, q))); }, x);
    return memory_stats(kGpu).peak - before;
  };
  const int64_t few = testing::kSanitized || cuda::fake() ? 1024 : 4096, many = 8 * few, of_few = peak(few), of_many = peak(many);
  std::cout << of_few / 1024 << " kB at " << few << " tokens, " << of_many / 1024 << " kB at " << many << "\n";
  EXPECT_LT(of_many, 10 * of_few);
  EXPECT_LT(of_many, many << 11);  // an array of bytes [32768, 32768] has 1 GB, 16 times as much
}

/// The kernels of tensor cores, forward mode and second order among them, at twice the head dim and heads of the above.
TEST(CudaAttentionDerivatives, HoppersMemoryIsLinearInTheLength) {
  NEEDS_CUDA_KERNELS();
  const auto peak = [](int64_t length) {
    const auto draw = [&] { return random_tensor({1, length, 2, 64}, DType::bfloat16).to(kGpu).detach(); };
    const Tensor x = draw(), t = draw();
    const AttentionOptions options{.mask = masks::causal()};
    const std::string text = explain_attention(x, x, x, options);
    for (const char* pass : {"forward", "backward", "forward mode", "second order"})
      EXPECT_NE(text.find(std::string("  ") + pass + ": hopper\n"), std::string::npos) << text;
    const auto f = [&](const Tensor& q) { return attention(q, x, x, options); };
    const int64_t before = memory_stats(kGpu).in_use;
    reset_peak_memory(kGpu);
    hvp([&](const Tensor& q) { return sum(square(f(q))); }, x, t);
    jvp(f, x, t);
    grad([&](const Tensor& q) { return sum(square(grad([&](const Tensor& y) { return sum(square(f(y))); }, q))); }, x);
    return memory_stats(kGpu).peak - before;
  };
  const int64_t of_few = peak(4096), of_many = peak(32768);
  std::cout << of_few / 1024 << " kB at 4096 tokens, " << of_many / 1024 << " kB at 32768\n";
  EXPECT_LT(of_many, 10 * of_few);
  EXPECT_LT(of_many, int64_t{1} << 29);  // scores [2, 32768, 32768] of 2 bytes have 4 GB, 8 times as much
}

}  // namespace
}  // namespace deckle
