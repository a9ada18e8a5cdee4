// Attention through the public functions on a GPU, held to the CPU's of the same numbers in float32.
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

/// A bfloat16 tensor, and the same numbers in float32 on the CPU.
struct Pair {
  Tensor gpu, cpu;
  explicit Pair(Ints sizes) {
    const Tensor narrow = randn(sizes).to(DType::bfloat16);
    gpu = narrow.to(kGpu).detach().requires_grad_();
    cpu = narrow.to(DType::float32).detach().requires_grad_();
  }
};

void expect_near(const Tensor& got, const Tensor& expected) {
  EXPECT_EQ(got.device(), kGpu);
  testing::expect_close(got.to(DType::float32), expected, 3e-2, 3e-2);
}

TEST(CudaAttention, DenseIsTheCpus) {
  NEEDS_GPU();
  for (const int64_t dim : {64, 128}) {
    for (const bool causal : {false, true}) {
      const Pair q({2, 130, 4, dim}), k({2, 200, 2, dim}), v({2, 200, 2, dim});
      AttentionOptions options;
      if (causal) options.mask = masks::causal();
      const Tensor got = attention(q.gpu, k.gpu, v.gpu, options), expected = attention(q.cpu, k.cpu, v.cpu, options);
      expect_near(got, expected);
      const Tensor weight = randn(expected.sizes());
      got.backward(weight.to(DType::bfloat16).to(kGpu));
      expected.backward(weight.to(DType::bfloat16).to(DType::float32));
      expect_near(q.gpu.grad(), q.cpu.grad());
      expect_near(k.gpu.grad(), k.cpu.grad());
      expect_near(v.gpu.grad(), v.cpu.grad());
    }
  }
}

TEST(CudaAttention, OperandsMayBeSlicesAtAnyAddressAndExpanded) {
  NEEDS_GPU();
  const Pair q({2, 130, 4, 72}), k({2, 200, 1, 64}), v({2, 200, 2, 69}), all({1, 1 + 2 * 130 * 4 * 64});
  const auto one = [](const Tensor& x, const Tensor& y, const Tensor& z) {  // not at 16 bytes; one head for all; rows of 69
    return attention(slice(x, -1, 4, 68), expand(y, {2, 200, 2, 64}), slice(z, -1, 0, 64));
  };
  const auto other = [](const Tensor& x, const Tensor& y) {  // contiguous, at 2 bytes
    const Tensor moved = view(slice(x, 1, 1, x.size(1)), {2, 130, 4, 64});
    return attention(moved, y, y);
  };
  const Tensor got = one(q.gpu, k.gpu, v.gpu), expected = one(q.cpu, k.cpu, v.cpu);
  expect_near(got, expected);
  sum(got * got).backward();
  sum(expected * expected).backward();
  expect_near(q.gpu.grad(), q.cpu.grad());
  expect_near(v.gpu.grad(), v.cpu.grad());
  expect_near(other(all.gpu, k.gpu), other(all.cpu, k.cpu));
}

TEST(CudaAttention, TheGradientOfTheResultMayLieAtAnyAddress) {
  NEEDS_GPU();
  for (const int64_t dim : {64, 72, 128}) {
    for (const double soft_cap : {0.0, 20.0}) {
      const Pair q({2, 130, 4, dim}), k({2, 200, 2, dim}), v({2, 200, 2, dim}), one({1, 1}), weight({1, 1 + 2 * 130 * 4 * dim});
      const auto loss = [&](const Tensor& head, const Tensor& x, const Tensor& y, const Tensor& z, const Tensor& by) {
        const Tensor out = attention(x, y, z, {.mask = masks::causal(), .soft_cap = soft_cap});
        return sum(cat({head, view(out, {1, 2 * 130 * 4 * dim})}, 1) *
                   by.detach());  // its gradient begins 2 bytes into that of cat
      };
      loss(one.gpu, q.gpu, k.gpu, v.gpu, weight.gpu).backward();
      loss(one.cpu, q.cpu, k.cpu, v.cpu, weight.cpu).backward();
      expect_near(q.gpu.grad(), q.cpu.grad());
      expect_near(k.gpu.grad(), k.cpu.grad());
      expect_near(v.gpu.grad(), v.cpu.grad());
    }
  }
}

TEST(CudaAttention, CallsOnOneShapeShareWhatIsMadeOfItsLengths) {
  NEEDS_GPU();
  const std::vector<int64_t> lengths = {3, 0, 150, 64, 1, 513};
  const Ragged shared = Ragged::from_lengths(lengths);
  const Pair q({731, 4, 64}), k({731, 4, 64}), v({731, 4, 64}), few({731, 2, 64}), wide({731, 4, 128});
  const auto results = [&](const Ragged& rows, const Tensor& a, const Tensor& b, const Tensor& c, AttentionOptions options) {
    Generator generator(3);  // the same dropout in every call
    options.generator = &generator;
    const Tensor x = a.detach().requires_grad_(), y = b.detach().requires_grad_(), z = c.detach().requires_grad_();
    const Tensor out = attention(NestedTensor(x, rows), NestedTensor(y, rows), NestedTensor(z, rows), options).values();
    out.backward(ones(out.sizes(), DType::bfloat16, kGpu));
    return std::vector<Tensor>{out.detach(), x.grad(), y.grad(), z.grad()};
  };
  for (int turn = 0; turn < 2; ++turn) {
    for (const auto& [causal, soft_cap, dropout] :
         {std::tuple(false, 0.0, 0.0), {true, 0.0, 0.0}, {false, 0.0, 0.2}, {true, 0.0, 0.2}, {true, 5.0, 0.0}}) {
      AttentionOptions options{.soft_cap = soft_cap, .dropout = dropout};
      if (causal) options.mask = masks::causal();
      for (const auto& [a, b, c] : {std::tuple(q, k, v), std::tuple(q, few, few), std::tuple(wide, wide, wide)}) {
        const std::vector<Tensor> got = results(shared, a.gpu, b.gpu, c.gpu, options),
                                  alone = results(Ragged::from_lengths(lengths), a.gpu, b.gpu, c.gpu, options);
        for (size_t i = 0; i < got.size(); ++i)
          EXPECT_TRUE(equal(got[i], alone[i])) << "result " << i << " in turn " << turn << (causal ? ", causal" : "") << ", cap "
                                               << soft_cap << ", dropout " << dropout;
      }
    }
  }
}

TEST(CudaAttention, RaggedIsTheCpus) {
  NEEDS_GPU();
  const Ragged rows = Ragged::from_lengths(std::vector<int64_t>{3, 0, 150, 64, 1});
  const Pair q({218, 4, 64}), k({218, 4, 64}), v({218, 4, 64});
  AttentionOptions options;
  options.mask = masks::causal();
  const auto call = [&](const Tensor& a, const Tensor& b, const Tensor& c) {
    return attention(NestedTensor(a, rows), NestedTensor(b, rows), NestedTensor(c, rows), options).values();
  };
  const Tensor got = call(q.gpu, k.gpu, v.gpu), expected = call(q.cpu, k.cpu, v.cpu);
  expect_near(got, expected);
  got.backward(ones(got.sizes(), DType::bfloat16, kGpu));
  expected.backward(ones(expected.sizes()));
  expect_near(q.gpu.grad(), q.cpu.grad());
  expect_near(k.gpu.grad(), k.cpu.grad());
  expect_near(v.gpu.grad(), v.cpu.grad());
}

TEST(CudaAttention, GradientsOfPartsOfOneTensorAreItsGradientWithoutACopy) {
  NEEDS_GPU();
  const Ragged rows = Ragged::from_lengths(std::vector<int64_t>{3, 0, 150, 64, 1});
  for (const int64_t dim : {64, 128}) {
    for (const bool causal : {false, true}) {
      const Pair all({218, 3, 4, dim});
      AttentionOptions options;
      if (causal) options.mask = masks::causal();
      const Tensor weight = randn({218, 4, dim}).to(DType::bfloat16);
      const auto gradients = [&](const Tensor& x, const Tensor& cotangent) {
        const std::vector<Tensor> parts = unbind(x, 1);
        const auto part = [&](size_t i) { return NestedTensor(parts[i], rows); };
        const Tensor out = attention(part(0), part(1), part(2), options).values();
        return grad({out}, {parts[0], parts[2], x}, {.grad_outputs = {cotangent}});
      };
      const std::vector<Tensor> got = gradients(all.gpu, weight.to(kGpu)),
                                expected = gradients(all.cpu, weight.to(DType::float32));
      for (size_t i = 0; i < 3; ++i) expect_near(got[i], expected[i]);
      EXPECT_EQ(got[0].storage(), got[2].storage());
      EXPECT_EQ(got[1].storage(), got[2].storage());
      EXPECT_NE(expected[0].storage(), expected[2].storage());
    }
  }
}

/// Head dims and biases that the kernels of tensor cores do not read as they lie.
TEST(CudaAttention, WhatIsNotInPiecesOf16BytesIsCopied) {
  NEEDS_GPU();
  struct Case {
    int64_t dim, value_dim, keys;
    const char *dims, *bias, *kernel;
  };
  for (const Case& c : {Case{7, 33, 57, "head dims 7/33 are copied to 8/40", "bias of 57 columns is copied to 64", "hopper"},
                        {20, 20, 64, "head dims 20/20 are copied to 24/24", nullptr, "hopper"},
                        {64, 64, 2, nullptr, "bias of 2 columns is copied to 8", "hopper"},
                        {64, 128, 57, "head dims 64/128 are copied to 72/128", "bias of 57 columns is copied to 64", "hopper"},
                        {128, 40, 64, "head dims 128/40 are copied to 128/72", nullptr, "hopper"},
                        {130, 9, 64, "head dims 130/9 are copied to 136/72", nullptr, "portable"}}) {
    SCOPED_TRACE(c.dim);
    const Pair q({2, 50, 4, c.dim}), k({2, c.keys, 2, c.dim}), v({2, c.keys, 2, c.value_dim}), bias({2, 1, 50, c.keys});
    const AttentionOptions on_gpu{.mask = masks::causal(), .bias = bias.gpu}, on_cpu{.mask = masks::causal(), .bias = bias.cpu};
    const std::string text = explain_attention(q.gpu, k.gpu, v.gpu, on_gpu);
    for (const char* told : {c.dims, c.bias}) {
      if (told != nullptr) {
        EXPECT_NE(text.find(told), std::string::npos) << text;
      }
    }
    EXPECT_EQ(text.find(" copied ") != std::string::npos, c.dims != nullptr || c.bias != nullptr) << text;
    if (!cuda::fake()) {
      EXPECT_NE(text.find(std::string("  backward: ") + c.kernel + "\n"), std::string::npos) << text;
    }
    const Tensor got = attention(q.gpu, k.gpu, v.gpu, on_gpu), expected = attention(q.cpu, k.cpu, v.cpu, on_cpu);
    expect_near(got, expected);
    EXPECT_TRUE(got.is_contiguous());
    const Tensor weight = randn(expected.sizes()).to(DType::bfloat16);
    got.backward(weight.to(kGpu));
    expected.backward(weight.to(DType::float32));
    for (const Pair* x : {&q, &k, &v, &bias}) expect_near(x->gpu.grad(), x->cpu.grad());
  }
}

/// A slice at 2 bytes, and rows of 201 numbers; an expanded bias is left as it is.
TEST(CudaAttention, ABiasAtAnyAddressIsCopied) {
  NEEDS_GPU();
  const Pair q({2, 50, 4, 64}), k({2, 200, 2, 64}), v({2, 200, 2, 64}), bias({2, 4, 50, 201});
  const Tensor of_gpu = slice(bias.gpu, 3, 1, 201), of_cpu = slice(bias.cpu, 3, 1, 201);
  const std::string text = explain_attention(q.gpu, k.gpu, v.gpu, {.bias = of_gpu});
  EXPECT_NE(text.find("the bias of 200 columns is copied to 200"), std::string::npos) << text;
  const Tensor got = attention(q.gpu, k.gpu, v.gpu, {.bias = of_gpu}),
               expected = attention(q.cpu, k.cpu, v.cpu, {.bias = of_cpu});
  expect_near(got, expected);
  sum(got * got).backward();
  sum(expected * expected).backward();
  expect_near(bias.gpu.grad(), bias.cpu.grad());
  const Tensor one = slice(bias.gpu, 2, 0, 1);
  EXPECT_EQ(explain_attention(q.gpu, k.gpu, v.gpu, {.bias = expand(slice(one, 3, 1, 201), {2, 4, 50, 200})}).find("copied"),
            std::string::npos);
}

TEST(CudaAttention, WhatTheTensorCoresDoNotServeTheGeneralKernelsDo) {
  NEEDS_CUDA_KERNELS();
  const Tensor x = randn({1, 8, 2, 64}, {}, kGpu);
  const std::string wide = explain_attention(x.to(DType::float64), x.to(DType::float64), x.to(DType::float64));
  EXPECT_NE(wide.find("  forward: general\n"), std::string::npos) << wide;
  EXPECT_NE(wide.find("not hopper: dtype is float64 (serves bfloat16, float16, float32)"), std::string::npos) << wide;
  const std::string text = explain_attention(x, x, x);
  EXPECT_NE(text.find("  forward: hopper\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  second order: general\n"), std::string::npos) << text;
  EXPECT_NE(text.find("not hopper: dtype is float32 (serves forward mode and second order of bfloat16)"), std::string::npos)
      << text;
  const std::string half = explain_attention(x.to(DType::bfloat16), x.to(DType::bfloat16), x.to(DType::bfloat16));
  EXPECT_NE(half.find("  second order: hopper\n"), std::string::npos) << half;
  EXPECT_NE(half.find("not portable: forward mode or second order is asked for"), std::string::npos) << half;
  const Tensor none = randn({1, 8, 2, 0}, {}, kGpu);
  testing::expect_error([&] { attention(none, none, x); }, "general: head dims are 0 and 64 (serves 1 and more)");
}

}  // namespace
}  // namespace deckle
