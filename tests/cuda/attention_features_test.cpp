// What attention does besides softmax(scale q kᵀ) v, through the public functions on a GPU, held to the CPU's of the same
// numbers.
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

/// Operands that are differentiated by: bfloat16 (or float32, as the CPU's) on the GPU, float32 on the CPU. Gradients of the
/// latter are sums over all rows, in which what is left of large terms may be small: they are compared as one vector.
struct Operands {
  std::vector<Tensor> gpu, cpu;
  std::vector<bool> summed;

  size_t add(const Tensor& numbers, bool narrow = true) {
    summed.push_back(!narrow);
    const Tensor rounded = numbers.to(DType::bfloat16).to(DType::float32);
    cpu.push_back((narrow ? rounded : numbers).detach().requires_grad_());
    gpu.push_back((narrow ? numbers.to(DType::bfloat16) : numbers).to(Device::cuda()).detach().requires_grad_());
    return cpu.size() - 1;
  }
};

using Set = std::function<void(AttentionOptions&, const std::vector<Tensor>&)>;

/// q, k and v are the first three operands; `set` fills options with the others.
void expect_like_cpu(Operands operands, const Set& set, const std::string& kernel, const std::string& of_backward = "") {
  const auto run = [&](const std::vector<Tensor>& of) {
    Generator generator(11);
    AttentionOptions options;
    options.generator = &generator;
    set(options, of);
    return attention(of[0], of[1], of[2], options);
  };
  AttentionOptions options;
  set(options, operands.gpu);
  const std::string text = explain_attention(operands.gpu[0], operands.gpu[1], operands.gpu[2], options);
  EXPECT_NE(text.find("  forward: " + kernel + "\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  backward: " + of_backward), std::string::npos) << text;
  const Tensor got = run(operands.gpu), expected = run(operands.cpu);
  testing::expect_close(got.to(DType::float32), expected, 3e-2, 3e-2);
  const Tensor weight = randn(expected.sizes()).to(DType::bfloat16);
  got.backward(weight.to(Device::cuda()));
  expected.backward(weight.to(DType::float32));
  for (size_t i = 0; i < operands.cpu.size(); ++i) {
    const Tensor gradient = operands.gpu[i].grad().to(Device()).to(DType::float32), reference = operands.cpu[i].grad();
    if (operands.summed[i]) {
      const Tensor error = gradient - reference;
      EXPECT_LE(std::sqrt(sum(error * error).item()), 3e-2 * std::sqrt(sum(reference * reference).item())) << "gradient " << i;
    } else {
      testing::expect_close(gradient, reference, 4e-2, 4e-2);
    }
  }
}

Operands operands(int64_t rows, int64_t keys, int64_t kv_heads = 2) {
  Operands x;
  x.add(randn({2, rows, 4, 64}));
  x.add(randn({2, keys, kv_heads, 64}));
  x.add(randn({2, keys, kv_heads, 64}));
  return x;
}

TEST(CudaAttentionFeatures, BiasOfEveryShape) {
  NEEDS_CUDA_KERNELS();
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 4, 130, 200},
                                            {1, 4, 130, 200},
                                            {1, 1, 130, 200},
                                            {2, 1, 1, 200},
                                            {2, 4, 130, 1},
                                            {2, 4, 130, 203}}) {
    const bool in_pieces = shape[3] > 1, of_rows = shape[2] > 1;  // rows of 203 biases are copied
    Operands x = operands(130, std::max<int64_t>(shape[3], 200));
    x.add(randn(shape));
    const auto set = [](AttentionOptions& o, const std::vector<Tensor>& of) {
      o.bias = of[3];
      o.mask = masks::causal();
    };
    expect_like_cpu(x, set, in_pieces ? "hopper" : "portable", in_pieces && of_rows ? "hopper" : "portable");
  }
}

// On both devices such a row keeps what float32 leaves of its scores, and its gradients are those by a log-sum-exp of float32.
TEST(CudaAttentionFeatures, BiasesFarBelowZeroOnAllKeysOfARow) {
  NEEDS_CUDA_KERNELS();
  for (const double cap : {0.0, 3.0}) {
    Operands x = operands(130, 200);
    const Tensor bias = randn({1, 1, 130, 200});
    int64_t row = 3;
    for (const double far : {-1e4, -1e8, -1e9, -2e9, -1e10, -1e30, -3.3895313892515355e38}) {
      bias.narrow(2, row, 1).fill_(far);
      bias.narrow(2, row + 4, 1).narrow(3, 50, 150).fill_(far);
      row += 9;
    }
    x.add(bias);
    x.summed.assign(4, true);  // a far row's weights in its gradients are 1 each: what is left of their terms may be small
    const auto set = [&, cap = cap](AttentionOptions& o, const std::vector<Tensor>& of) {
      o.bias = of[3];
      o.soft_cap = cap;
    };
    expect_like_cpu(x, set, "hopper", cap == 0 ? "hopper" : "portable");
  }
}

TEST(CudaAttentionFeatures, SlopesTablesAndCaps) {
  NEEDS_CUDA_KERNELS();
  Operands x = operands(130, 200);
  x.add(rand({4}) * 0.1, false);
  x.add(randn({4, 41}), false);
  const auto set = [](AttentionOptions& o, const std::vector<Tensor>& of) {
    o.slopes = of[3];
    o.table = of[4];
    o.soft_cap = 5;
    o.mask = masks::window(90, 20);
  };
  expect_like_cpu(x, set, "hopper");
}

// By c - 2 c / (1 + e^(2 x)), 1e6 would leave a score no bit behind the point.
TEST(CudaAttentionFeatures, ACapOfAnySize) {
  NEEDS_CUDA_KERNELS();
  for (const auto& [cap, kernel] : {std::pair(4096.0, "hopper"), {1e4, "general"}, {1e6, "general"}}) {
    const auto set = [&, cap = cap](AttentionOptions& o, const std::vector<Tensor>&) { o.soft_cap = cap; };
    expect_like_cpu(operands(130, 200), set, kernel);
  }
  // Small ones, whose gradients of q and k are small as well: each is compared as one vector.
  for (const auto& [cap, of_backward] : {std::pair(1.0 / 64, "hopper"), {1e-3, "portable"}, {1e-5, "portable"}}) {
    SCOPED_TRACE(cap);
    const auto set = [&, cap = cap](AttentionOptions& o, const std::vector<Tensor>&) { o.soft_cap = cap; };
    const Operands x = operands(130, 200);
    expect_like_cpu(x, set, "hopper", of_backward);
    for (const int i : {0, 1}) {
      const Tensor got = x.gpu[i].grad().to(Device()).to(DType::float32), expected = x.cpu[i].grad(), error = got - expected;
      EXPECT_LE(std::sqrt(sum(error * error).item()), 2e-2 * std::sqrt(sum(expected * expected).item())) << "gradient " << i;
    }
  }
}

// Columns that a copy adds for the kernels' sake are none that the caller gave.
TEST(CudaAttentionFeatures, ABiasOfTooFewColumnsIsRefused) {
  NEEDS_GPU();
  const auto half = [](Ints sizes) { return randn(sizes).to(DType::bfloat16).to(Device::cuda()); };
  const Tensor q = half({2, 10, 2, 64}), k = half({2, 60, 2, 64}), bias = half({2, 1, 10, 57});
  testing::expect_error([&] { attention(q, k, k, {.bias = bias}); },
                        "attention: bias has shape [2, 1, 10, 57]; dim 3 must be 1 or at least 60");
}

// A batch of equal lengths counts as dense; its bias may be larger than they are, and what it has there is nobody's.
TEST(CudaAttentionFeatures, ABiasLargerThanItsSequencesIsIsolated) {
  NEEDS_CUDA_KERNELS();
  for (const int64_t dim : {64, 128}) {
    for (const int64_t sequences : {1, 3}) {
      const Ragged rows = Ragged::from_lengths(std::vector<int64_t>(sequences, 100));
      Operands x;
      for (int i = 0; i < 3; ++i) x.add(randn({100 * sequences, 4, dim}));
      Tensor bias = randn({1, 4, 128, 128});
      slice(bias, 2, 100, 128).fill_(std::nan(""));
      slice(bias, 3, 100, 128).fill_(INFINITY);
      x.add(bias);
      const auto run = [&](const std::vector<Tensor>& of) {
        const NestedTensor q(of[0], rows), k(of[1], rows), v(of[2], rows);
        const std::string text = explain_attention(q, k, v, {.bias = of[3]});
        if (of[0].device().is_cuda()) EXPECT_NE(text.find("  backward: hopper\n"), std::string::npos) << text;
        const Tensor out = attention(q, k, v, {.bias = of[3]}).values();
        out.backward(ones(out.sizes(), out.dtype(), out.device()));
        return out.detach().to(Device()).to(DType::float32);
      };
      testing::expect_close(run(x.gpu), run(x.cpu), 3e-2, 3e-2);
      for (size_t i = 0; i < 4; ++i)
        testing::expect_close(x.gpu[i].grad().to(Device()).to(DType::float32), x.cpu[i].grad(), 4e-2, 4e-2);
      for (const int dim_of : {2, 3})
        EXPECT_EQ(sum(abs(slice(x.gpu[3].grad(), dim_of, 100, 128).to(Device()).to(DType::float32))).item(), 0);
    }
  }
}

// Planes of a ragged bias lie where offsets tell, also where all sequences are equally long, or there is one alone.
TEST(CudaAttentionFeatures, ARaggedBiasOfEqualLengths) {
  NEEDS_CUDA_KERNELS();
  constexpr int64_t kQueries = 30, kKeys = 70;
  for (const int64_t sequences : {1, 2}) {
    std::vector<int64_t> planes;
    for (int64_t b = 0; b < sequences; ++b) planes.insert(planes.end(), {kQueries, kKeys});
    const Ragged of_planes(std::make_shared<const RaggedShape>(planes, 2));
    for (const bool dense : {false, true}) {
      SCOPED_TRACE(dense ? "dense" : "ragged");
      Operands x;
      x.add(randn({sequences * kQueries, 4, 64}));
      for (int i = 0; i < 2; ++i) x.add(randn({sequences * kKeys, 2, 64}));
      x.add(randn({sequences * kQueries * kKeys}));
      const auto run = [&](const std::vector<Tensor>& of) {
        const AttentionOptions options{.mask = masks::causal(), .ragged_bias = NestedTensor(of[3], of_planes)};
        const auto batch = [&](size_t i) { return view(of[i], {sequences, -1, of[i].size(1), 64}); };
        const auto nested = [&](size_t i, int64_t length) {
          return NestedTensor(of[i], Ragged::from_lengths(std::vector<int64_t>(static_cast<size_t>(sequences), length)));
        };
        if (of[0].device().is_cuda()) {
          const std::string text = dense ? explain_attention(batch(0), batch(1), batch(2), options)
                                         : explain_attention(nested(0, kQueries), nested(1, kKeys), nested(2, kKeys), options);
          for (const char* pass : {"forward", "backward"})
            EXPECT_NE(text.find(std::string("  ") + pass + ": hopper\n"), std::string::npos) << text;
        }
        const Tensor out = dense ? flatten(attention(batch(0), batch(1), batch(2), options), 0, 1)
                                 : attention(nested(0, kQueries), nested(1, kKeys), nested(2, kKeys), options).values();
        out.backward(ones(out.sizes(), out.dtype(), out.device()));
        return out.detach().to(Device()).to(DType::float32);
      };
      testing::expect_close(run(x.gpu), run(x.cpu), 3e-2, 3e-2);
      for (size_t i = 0; i < 4; ++i)
        testing::expect_close(x.gpu[i].grad().to(Device()).to(DType::float32), x.cpu[i].grad(), 4e-2, 4e-2);
    }
  }
}

// A bias that is expanded is read as one row, and its gradient is of each row.
TEST(CudaAttentionFeatures, ABiasExpandedOverRows) {
  NEEDS_CUDA_KERNELS();
  Operands x = operands(130, 200);
  x.add(randn({1, 4, 1, 200}));
  const auto set = [](AttentionOptions& o, const std::vector<Tensor>& of) { o.bias = expand(of[3], {2, 4, 130, 200}); };
  expect_like_cpu(x, set, "hopper", "portable");
}

TEST(CudaAttentionFeatures, MasksOfRangesAndOfBytes) {
  NEEDS_CUDA_KERNELS();
  const Tensor allowed = rand({1, 1, 130, 200}) > 0.4;
  for (const AttentionMask& mask : {masks::prefix_lm(30), masks::prefix(20) || !masks::window(50, 50), masks::boolean(allowed),
                                    masks::boolean(allowed) && masks::causal()}) {
    expect_like_cpu(
        operands(130, 200), [&](AttentionOptions& o, const std::vector<Tensor>&) { o.mask = mask; }, "hopper");
  }
}

// A mask is compiled on the host, wherever the tensors lie that it is made of.
TEST(CudaAttentionFeatures, MasksOfTensorsOnTheGpu) {
  NEEDS_GPU();
  const Device gpu = Device::cuda();
  const Tensor allowed = rand({1, 1, 30, 50}) > 0.4, documents = randint(0, 3, {2, 30}), of_keys = randint(0, 3, {2, 50});
  const Tensor q = randn({2, 30, 4, 64}).to(gpu), k = randn({2, 50, 2, 64}).to(gpu);
  const auto result = [&](const AttentionMask& mask) { return attention(q, k, k, {.mask = mask}); };
  const Tensor wide = expand(allowed.to(gpu), {2, 4, 30, 50}), turned = allowed.transpose(2, 3).contiguous().to(gpu);
  EXPECT_TRUE(equal(result(masks::boolean(allowed.to(gpu))), result(masks::boolean(allowed))));
  EXPECT_TRUE(equal(result(masks::boolean(wide)), result(masks::boolean(allowed))));
  EXPECT_TRUE(equal(result(masks::boolean(turned.transpose(2, 3))), result(masks::boolean(allowed))));
  EXPECT_TRUE(equal(result(masks::documents(documents.to(gpu), of_keys.to(gpu))), result(masks::documents(documents, of_keys))));
  EXPECT_TRUE(
      equal(result(masks::boolean(allowed.to(gpu)) && masks::causal()), result(masks::boolean(allowed) && masks::causal())));
}

TEST(CudaAttentionFeatures, DropoutIsTheCpus) {
  NEEDS_CUDA_KERNELS();
  const auto set = [](AttentionOptions& o, const std::vector<Tensor>&) {
    o.dropout = 0.3;
    o.mask = masks::causal();
  };
  expect_like_cpu(operands(130, 200), set, "hopper");
}

TEST(CudaAttentionFeatures, FewRowsOnManyKeys) {
  NEEDS_CUDA_KERNELS();
  for (const int64_t rows : {1, 3})
    expect_like_cpu(
        operands(rows, 2000), [](AttentionOptions& o, const std::vector<Tensor>&) { o.mask = masks::causal(); }, "decode");
}

}  // namespace
}  // namespace deckle
