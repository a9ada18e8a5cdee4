// Ops that a GPU computes in one pass, against the CPU's in float64, which computes them one after another: every dtype, widths
// of every tile and of none, rows for one warp, for a part of a block and for many of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"

namespace deckle {
namespace {

struct Case {
  DType dtype;
  int64_t rows, n;
};

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const DType dtype : {DType::bfloat16, DType::float16, DType::float32, DType::float64}) {
    for (const int64_t n : {6, 8, 64, 264, 512, 768, 1000, 1024, 1032, 3072, 8200}) {
      for (const int64_t rows : {1, 9, 4100}) {
        if (rows * n <= 1'100'000 || (rows * n <= 4'300'000 && n == 768 && dtype == DType::bfloat16))
          result.push_back({dtype, rows, n});
      }
    }
  }
  return result;
}

double tolerance(DType dtype) {
  return dtype == DType::float64 ? 1e-12 : dtype == DType::float32 ? 1e-5 : dtype == DType::float16 ? 2e-3 : 1.6e-2;
}

/// Of the norms of the difference and of what is expected.
double distance(const Tensor& got, const Tensor& expected) {
  const Tensor difference = got.to(Device()).to(DType::float64) - expected;
  return norm(difference).item() / std::max(norm(expected).item(), 1e-30);
}

/// Numbers that `dtype` holds, on the CPU in float64.
Tensor drawn(std::vector<int64_t> sizes, DType dtype) { return randn(sizes).to(dtype).to(DType::float64); }

Tensor leaf(const Tensor& x, DType dtype, Device device) { return x.to(dtype).to(device).detach().requires_grad_(); }

TEST(CudaFused, ASumAndItsLayerNorm) {
  NEEDS_GPU();
  manual_seed(5);
  for (const auto& [dtype, rows, n] : cases()) {
    SCOPED_TRACE(testing::Message() << name(dtype) << " [" << rows << ", " << n << "]");
    std::vector<Tensor> of;
    for (int i = 0; i < 2; ++i) of.push_back(drawn({rows, n}, dtype));
    for (int i = 0; i < 3; ++i) of.push_back(drawn({n}, dtype));
    const Tensor g = drawn({rows, n}, dtype), c = drawn({rows, n}, dtype);
    const auto run = [&](DType type, Device device) {
      std::vector<Tensor> in, out;
      for (const Tensor& x : of) in.push_back(leaf(x, type, device));
      const auto [y, sum] = add_layer_norm(in[0], in[1], in[2], in[3], in[4], 1e-3);
      backward({y, sum}, {.grad_outputs = {g.to(type).to(device), c.to(type).to(device)}});
      out = {y.detach(), sum.detach()};
      for (const Tensor& x : in) out.push_back(x.grad());
      return out;
    };
    const std::vector<Tensor> got = run(dtype, Device::cuda()), expected = run(DType::float64, Device());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(distance(got[i], expected[i]), tolerance(dtype)) << "of result " << i;
  }
}

TEST(CudaFused, WeightsOfFloat32BesideHalves) {
  NEEDS_GPU();
  manual_seed(6);
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    for (const int64_t n : {6, 8, 264, 768, 1000, 1024, 1032}) {
      for (const int64_t rows : {1, 9, 300}) {
        SCOPED_TRACE(testing::Message() << name(dtype) << " [" << rows << ", " << n << "]");
        const Tensor x = drawn({rows, n}, dtype), z = drawn({rows, n}, dtype), g = drawn({rows, n}, dtype),
                     c = drawn({rows, n}, dtype);
        const Tensor weights[] = {drawn({n}, dtype), drawn({n}, DType::float32), drawn({n}, DType::float32)};
        const auto run = [&](DType type, DType of_weights, Device device) {
          std::vector<Tensor> in = {leaf(x, type, device), leaf(z, type, device)};
          for (const Tensor& weight : weights) in.push_back(leaf(weight, in.size() == 2 ? type : of_weights, device));
          const auto [y, sum] = add_layer_norm(in[0], in[1], in[2], in[3], in[4], 1e-3);
          backward({y, sum}, {.grad_outputs = {g.to(y.dtype()).to(device), c.to(sum.dtype()).to(device)}});
          std::vector<Tensor> out = {y.detach(), sum.detach()};
          for (const Tensor& leaf_of : in) out.push_back(leaf_of.grad());
          return out;
        };
        const std::vector<Tensor> got = run(dtype, DType::float32, Device::cuda()),
                                  expected = run(DType::float64, DType::float64, Device());
        for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(distance(got[i], expected[i]), tolerance(dtype)) << "of result " << i;
      }
    }
  }
}

TEST(CudaFused, ASumsRowsWhoseFirstElementIsFarFromTheOthers) {
  NEEDS_GPU();
  manual_seed(7);
  for (const DType dtype : {DType::bfloat16, DType::float16, DType::float32}) {
    for (const int64_t n : {264, 512, 768}) {
      const Tensor far = zeros({40, n}, DType::float64);
      far.slice(1, 0, 1).copy_(full({40, 1}, 500.0, DType::float64));
      const Tensor x = (drawn({40, n}, dtype) + far).to(dtype).to(DType::float64), z = drawn({40, n}, dtype),
                   g = drawn({40, n}, dtype);
      const auto run = [&](DType type, Device device) {
        const Tensor a = leaf(x, type, device), b = leaf(z, type, device), none;
        const Tensor y = std::get<0>(add_layer_norm(a, b, none, none, none, 1e-5));
        y.backward(g.to(type).to(device));
        return std::vector<Tensor>{a.grad(), b.grad()};
      };
      const std::vector<Tensor> got = run(dtype, Device::cuda()), expected = run(DType::float64, Device());
      for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(distance(got[i], expected[i]), tolerance(dtype)) << name(dtype) << n;
    }
  }
}

TEST(CudaFused, ASumsRowsFarFromZeroHugeAndTiny) {
  NEEDS_GPU();
  for (const double scale : {1e-18, 1.0, 1e18}) {
    const Tensor x = (randn({40, 512}) + 300) * scale, z = randn({40, 512}) * scale, none;
    const auto run = [&](DType type, Device device) {
      return std::get<0>(add_layer_norm(x.to(type).to(device), z.to(type).to(device), none, none, none, 0.0));
    };
    EXPECT_LT(distance(run(DType::float32, Device::cuda()), run(DType::float32, Device()).to(DType::float64)), 1e-4) << scale;
  }
}

TEST(CudaFused, ABiasAndGelu) {
  NEEDS_GPU();
  manual_seed(6);
  for (const auto& [dtype, rows, n] : cases()) {
    SCOPED_TRACE(testing::Message() << name(dtype) << " [" << rows << ", " << n << "]");
    const Tensor x = drawn({rows, n}, dtype) * 2, b = drawn({n}, dtype), g = drawn({rows, n}, dtype);
    const auto run = [&](DType type, Device device) {
      const Tensor in = leaf(x, type, device), bias = leaf(b, type, device);
      const Tensor y = bias_gelu(in, bias);
      backward({y}, {.grad_outputs = {g.to(type).to(device)}});
      return std::vector<Tensor>{y.detach(), in.grad(), bias.grad()};
    };
    const std::vector<Tensor> got = run(dtype, Device::cuda()), expected = run(DType::float64, Device());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_LT(distance(got[i], expected[i]), tolerance(dtype)) << "of result " << i;
  }
}

TEST(CudaFused, InfinitiesHaveTheSlopesOfGelu) {
  NEEDS_GPU();
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor x = tensor({-inf, -40.0f, 0.0f, 40.0f, inf, 1.0f, 2.0f, 3.0f}).view({1, 8}), b = zeros({8});
  const auto run = [&](DType dtype, Device device) {
    const Tensor in = leaf(x, dtype, device);
    const Tensor y = bias_gelu(in, b.to(dtype).to(device));
    backward({y}, {.grad_outputs = {ones({1, 8}, dtype, device)}});
    return in.grad().to(Device()).to(DType::float32);
  };
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    const double close = dtype == DType::float32 ? 1e-5 : dtype == DType::float16 ? 1e-3 : 8e-3;
    EXPECT_TRUE(allclose(run(dtype, Device::cuda()), run(DType::float32, Device()), close, close / 10)) << name(dtype);
  }
}

}  // namespace
}  // namespace deckle
