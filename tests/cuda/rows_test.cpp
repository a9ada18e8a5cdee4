// Kernels of rows and columns against the CPU's in float64: odd widths, unaligned rows, strides, no rows, NaN and infinities,
// every dtype, rows of every tile.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <random>

#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"

namespace deckle {
namespace {

using Op = std::function<Tensor(const Tensor&, const Tensor&)>;  // of two tensors of one shape

const DType kTypes[] = {DType::float32, DType::bfloat16, DType::float16, DType::float64};

double tolerance(DType dtype) {
  return dtype == DType::float64 ? 1e-12 : dtype == DType::float32 ? 4e-6 : dtype == DType::float16 ? 2e-3 : 1.6e-2;
}

/// The largest distance over one more than the size of what is expected; NaN and infinities must agree.
double distance(const Tensor& got, const Tensor& expected) {
  const std::vector<double> a = got.to(Device()).to(DType::float64).to_vector<double>(), b = expected.to_vector<double>();
  EXPECT_EQ(a.size(), b.size());
  double scale = 1e-30, largest = 0;
  for (const double x : b) scale = std::isfinite(x) ? std::max(scale, std::abs(x)) : scale;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;
    const double error = std::abs(a[i] - b[i]) / scale;
    largest = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(largest, error);
  }
  return largest;
}

/// Rows of n on the CPU, exact in `dtype`; some special rows if there are enough.
Tensor values(int64_t rows, int64_t n, DType dtype, unsigned seed, bool special) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> numbers(static_cast<size_t>(rows * n));
  for (double& x : numbers) x = normal(random) * 2 + 0.5;
  const double inf = std::numeric_limits<double>::infinity();
  if (special && rows >= 5 && n > 0) {
    numbers[static_cast<size_t>(n / 2)] = std::nan("");
    numbers[static_cast<size_t>(n + n / 3)] = -inf;
    numbers[static_cast<size_t>(2 * n)] = inf;
    for (int64_t i = 0; i < n; ++i) numbers[static_cast<size_t>(3 * n + i)] = 3;
  }
  return tensor(numbers).view({rows, n}).to(dtype).to(DType::float64);
}

/// The same on the GPU with its first element `shift` elements behind an aligned place.
Tensor shifted(const Tensor& x, DType dtype, int64_t shift) {
  const Tensor memory = empty({x.numel() + shift}, dtype, Device::cuda());
  Tensor result = memory.slice(0, shift, x.numel() + shift).reshape(x.sizes());
  result.copy_(x.to(dtype));
  return result;
}

void check(const char* name, const Op& op, const std::vector<std::pair<int64_t, int64_t>>& shapes, bool special,
           double factor = 1) {
  for (const DType dtype : kTypes) {
    unsigned seed = 1;
    for (const auto& [rows, n] : shapes) {
      const Tensor x = values(rows, n, dtype, ++seed, special), y = values(rows, n, dtype, ++seed, false);
      const Tensor expected = op(x, y);
      for (const int64_t shift : {0, 1}) {
        const Tensor got = op(shifted(x, dtype, shift), shifted(y, dtype, shift));
        EXPECT_LE(distance(got, expected), factor * tolerance(dtype))
            << name << " of [" << rows << ", " << n << "] in " << deckle::name(dtype) << ", shifted by " << shift;
        if (rows * n == 0) continue;
        const Tensor turned =
            op(x.to(dtype).t().contiguous().to(Device::cuda()).t(), y.to(dtype).t().contiguous().to(Device::cuda()).t());
        EXPECT_LE(distance(turned, expected), factor * tolerance(dtype))
            << name << " of transposed [" << rows << ", " << n << "] in " << deckle::name(dtype);
      }
    }
  }
}

const std::vector<std::pair<int64_t, int64_t>> kRows = {{0, 5},    {5, 1},    {9, 7},    {33, 64},  {17, 129},  {6, 256},
                                                        {5, 500},  {5, 768},  {7, 1024}, {5, 1025}, {5, 1536},  {5, 2048},
                                                        {5, 4096}, {5, 5000}, {5, 8192}, {5, 9001}, {5, 16384}, {5, 40000}};

TEST(CudaRows, Softmax) {
  NEEDS_CUDA_KERNELS();
  check(
      "softmax", [](const Tensor& x, const Tensor&) { return softmax(x, 1); }, kRows, true);
  check(
      "log_softmax", [](const Tensor& x, const Tensor&) { return log_softmax(x, 1); }, kRows, true);
  check(
      "softmax of columns", [](const Tensor& x, const Tensor&) { return softmax(x, 0); }, {{40, 33}, {300, 8}}, false);
}

TEST(CudaRows, SoftmaxBackward) {
  NEEDS_CUDA_KERNELS();
  check(
      "softmax_backward", [](const Tensor& x, const Tensor& y) { return softmax_backward(x, softmax(y, 1), 1); }, kRows, false,
      4);
  check(
      "log_softmax_backward", [](const Tensor& x, const Tensor& y) { return log_softmax_backward(x, log_softmax(y, 1), 1); },
      kRows, false, 8);
}

TEST(CudaRows, Norms) {
  NEEDS_CUDA_KERNELS();
  check(
      "layer_norm",
      [](const Tensor& x, const Tensor& y) {
        return x.size(0) == 0 ? layer_norm(x) : layer_norm(x, y.select(0, 0).contiguous(), y.select(0, 1).contiguous());
      },
      kRows, true, 4);
  check(
      "rms_norm",
      [](const Tensor& x, const Tensor& y) { return x.size(0) == 0 ? rms_norm(x) : rms_norm(x, y.select(0, 0).contiguous()); },
      kRows, true, 4);
}

TEST(CudaRows, NormsBackward) {
  NEEDS_CUDA_KERNELS();
  // A row of one element has almost no slope: 1 - xh^2 of rms_norm is what rounding leaves.
  std::vector<std::pair<int64_t, int64_t>> shapes = kRows;
  std::erase(shapes, std::pair<int64_t, int64_t>(5, 1));
  for (int result = 0; result < 3; ++result) {
    check(
        "layer_norm_backward",
        [result](const Tensor& x, const Tensor& y) {
          const Tensor weight = y.size(0) == 0 ? Tensor() : y.select(0, 0).contiguous();
          const auto [dx, dw, db] = layer_norm_backward(x, y, weight, 1e-5);
          return result == 0 ? dx : result == 1 ? dw : db;
        },
        shapes, false, 8);
  }
  for (int result = 0; result < 2; ++result) {
    check(
        "rms_norm_backward",
        [result](const Tensor& x, const Tensor& y) {
          const Tensor weight = y.size(0) == 0 ? Tensor() : y.select(0, 0).contiguous();
          const auto [dx, dw] = rms_norm_backward(x, y, weight, 1e-5);
          return result == 0 ? dx : dw;
        },
        shapes, false, 8);
  }
  check(
      "many rows", [](const Tensor& x, const Tensor& y) { return std::get<1>(layer_norm_backward(x, y, {}, 1e-5)); },
      {{5000, 96}}, false, 8);
}

TEST(CudaRows, NormsBackwardOfRowsWhoseFirstElementIsFarFromTheOthers) {
  NEEDS_CUDA_KERNELS();
  for (const DType dtype : kTypes) {
    for (const int64_t n : {64, 768, 1000, 4096}) {
      for (const double first : {40.0, -3000.0}) {
        const Tensor g = values(9, n, dtype, 3, false), drawn = values(9, n, DType::float64, 4, false);
        std::vector<double> numbers = drawn.to_vector<double>();
        for (int64_t row = 0; row < 9; row += 2) numbers[static_cast<size_t>(row * n)] = first;
        const Tensor x = tensor(numbers).view({9, n}).to(dtype).to(DType::float64), w = values(1, n, dtype, 5, false).view({n});
        const auto on_gpu = [&](const Tensor& t) { return t.to(dtype).to(Device::cuda()); };
        const auto [dx, dw, db] = layer_norm_backward(on_gpu(g), on_gpu(x), on_gpu(w), 1e-5);
        const auto [dx_expected, dw_expected, db_expected] = layer_norm_backward(g, x, w, 1e-5);
        EXPECT_LE(distance(dx, dx_expected), 8 * tolerance(dtype)) << name(dtype) << " " << n << " " << first;
        EXPECT_LE(distance(dw, dw_expected), 8 * tolerance(dtype)) << name(dtype) << " " << n << " " << first;
        EXPECT_LE(distance(db, db_expected), 8 * tolerance(dtype)) << name(dtype) << " " << n << " " << first;
      }
    }
  }
}

TEST(CudaRows, NormsBackwardWithLittleSharedMemory) {
  NEEDS_CUDA_KERNELS();
  const auto run = [](DType dtype, Device device) {
    const auto to = [&](const Tensor& t) { return t.to(dtype).to(device); };
    const Tensor g = values(70, 8192, DType::bfloat16, 3, false), x = values(70, 8192, DType::bfloat16, 4, false);
    const Tensor w = values(1, 8192, DType::bfloat16, 5, false).view({8192});
    const auto [dx, dw, db] = layer_norm_backward(to(g), to(x), to(w), 1e-5);
    return std::vector<Tensor>{dx, dw, db};
  };
  const std::vector<Tensor> usual = run(DType::bfloat16, Device::cuda());
  setenv("DECKLE_CUDA_SHARED_MEMORY", "65536", 1);  // two sums of doubles a column are 131,072 bytes
  const std::vector<Tensor> little = run(DType::bfloat16, Device::cuda());
  unsetenv("DECKLE_CUDA_SHARED_MEMORY");
  const std::vector<Tensor> expected = run(DType::float64, Device());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(distance(usual[i], expected[i]), 8 * tolerance(DType::bfloat16)) << i;
    EXPECT_LE(distance(little[i], expected[i]), 8 * tolerance(DType::bfloat16)) << i;
  }
}

TEST(CudaRows, SumsOfIntegersAreModuloTwoToThe64) {
  NEEDS_CUDA_KERNELS();
  const int64_t largest = std::numeric_limits<int64_t>::max();
  for (const int64_t count : {3, 70001}) {
    std::vector<int64_t> numbers(static_cast<size_t>(count), largest);
    const auto expected = static_cast<int64_t>(static_cast<uint64_t>(largest) * static_cast<uint64_t>(count));
    const Tensor x = tensor(numbers).to(Device::cuda());
    EXPECT_EQ(sum(x).item<int64_t>(), expected);
    const Tensor columns = x.view({count, 1}).expand({count, 33}).contiguous();
    EXPECT_EQ(sum(columns, Ints{0}).to_vector<int64_t>(), std::vector<int64_t>(33, expected));
  }
}

TEST(CudaRows, CopiesOfHalvesTurnedAndWidened) {
  NEEDS_CUDA_KERNELS();
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    for (const auto& [rows, n] : std::vector<std::pair<int64_t, int64_t>>{
             {128, 128}, {16, 8}, {8, 16}, {16, 16}, {24, 136}, {136, 24}, {264, 1000}, {1000, 264}, {257, 129}, {300, 72}}) {
      const Tensor x = values(3 * rows, n, dtype, 7, true), gpu = x.to(dtype).to(Device::cuda());
      SCOPED_TRACE(testing::Message() << name(dtype) << " [" << rows << ", " << n << "]");
      const auto same = [](const Tensor& got, const Tensor& expected) { EXPECT_EQ(distance(got, expected), 0); };
      same(gpu.t().contiguous(), x.t().contiguous());
      same(gpu.view({3, rows, n}).transpose(1, 2).contiguous(), x.view({3, rows, n}).transpose(1, 2).contiguous());
      same(gpu.view({3, rows, n}).permute({2, 0, 1}).contiguous(), x.view({3, rows, n}).permute({2, 0, 1}).contiguous());
      same(gpu.slice(1, 8, n).t().contiguous(), x.slice(1, 8, n).t().contiguous());
      const Tensor strided = zeros({n, 3 * rows + 8}, dtype, Device::cuda());
      strided.slice(1, 0, 3 * rows).copy_(gpu.t());
      same(strided.slice(1, 0, 3 * rows).contiguous(), x.t().contiguous());
      same(strided.slice(1, 3 * rows, 3 * rows + 8).contiguous(), zeros({n, 8}, DType::float64));
      same(gpu.to(DType::float32), x);
      same(shifted(x, dtype, 1).to(DType::float32), x);
      const Tensor flat = gpu.view({3 * rows * n});
      same(flat.slice(0, 0, 3 * rows * n - 3).to(DType::float32), x.view({3 * rows * n}).slice(0, 0, 3 * rows * n - 3));
    }
  }
}

TEST(CudaRows, SmallProducts) {
  NEEDS_CUDA_KERNELS();
  const int64_t sizes[] = {1, 2, 7, 31, 32, 33, 63, 64, 65};
  unsigned seed = 1;
  for (const DType dtype : kTypes) {
    for (const int64_t m : sizes) {
      for (const int64_t n : sizes) {
        for (const int64_t k : {int64_t{1}, int64_t{31}, int64_t{64}, int64_t{65}}) {
          const Tensor a = values(m, k, dtype, ++seed, false), b = values(k, n, dtype, ++seed, false);
          const Tensor bias = values(1, n, dtype, ++seed, false).view({n}), expected = mm(a, b);
          const auto gpu = [&](const Tensor& t) { return t.to(dtype).to(Device::cuda()); };
          const auto turned = [&](const Tensor& t) { return gpu(t.t().contiguous()).t(); };
          SCOPED_TRACE(testing::Message() << name(dtype) << " " << m << " " << k << " " << n);
          // Sums that cancel are as far off as those that do not.
          const double cancelled = norm(a).item() * norm(b).item() / std::sqrt(static_cast<double>(m * n)) /
                                   std::max(amax(abs(expected)).item(), 1e-30);
          const double bound = (2 + cancelled) * tolerance(dtype);
          EXPECT_LE(distance(mm(gpu(a), gpu(b)), expected), bound);
          EXPECT_LE(distance(mm(turned(a), gpu(b)), expected), bound);
          EXPECT_LE(distance(mm(gpu(a), turned(b)), expected), bound);
          EXPECT_LE(distance(linear(gpu(a), gpu(b.t().contiguous()), gpu(bias)), expected + bias), 4 * bound);
        }
      }
    }
  }
}

TEST(CudaRows, NormsOfHugeTinyAndFarNumbers) {
  NEEDS_CUDA_KERNELS();
  const Tensor x = values(8, 300, DType::float32, 5, false);
  for (const double scale : {1e25, 1e-25, 1e38 / 8}) {
    const Tensor scaled = (x * scale).to(DType::float32);
    EXPECT_LE(distance(layer_norm(scaled.to(Device::cuda()), {}, {}, 0.0), layer_norm(scaled.to(DType::float64), {}, {}, 0.0)),
              4e-6)
        << scale;
    EXPECT_LE(distance(rms_norm(scaled.to(Device::cuda()), {}, 0.0), rms_norm(scaled.to(DType::float64), {}, 0.0)), 4e-6)
        << scale;
  }
  const Tensor far = (x + 3e4).to(DType::float32);
  EXPECT_LE(distance(layer_norm(far.to(Device::cuda())), layer_norm(far.to(DType::float64))), 4e-6);
}

TEST(CudaRows, NormsOfRowsWithoutANormalNumber) {
  NEEDS_CUDA_KERNELS();
  for (const auto& [dtype, tiny] : {std::pair{DType::float32, 1e-39}, {DType::bfloat16, 1e-39}, {DType::float64, 1e-200}}) {
    for (const int64_t n : {5, 768, 3000}) {
      std::vector<double> numbers(static_cast<size_t>(3 * n));
      for (int64_t row = 0; row < 3; ++row) numbers[static_cast<size_t>(row * n + row)] = tiny * static_cast<double>(row + 1);
      const Tensor x = tensor(numbers).view({3, n}).to(dtype).to(DType::float64), g = values(3, n, dtype, 6, false);
      const auto on_gpu = [&, dtype = dtype](const Tensor& t) { return t.to(dtype).to(Device::cuda()); };
      SCOPED_TRACE(testing::Message() << name(dtype) << " " << n);
      const auto enlarged = [&, tiny = tiny](const Tensor& y) { return y.to(Device()).to(DType::float64) * (1 / tiny); };
      EXPECT_LE(distance(enlarged(layer_norm(on_gpu(x))), enlarged(layer_norm(x))), tolerance(dtype));
      EXPECT_LE(distance(enlarged(rms_norm(on_gpu(x), {}, 1e-5)), enlarged(rms_norm(x, {}, 1e-5))), tolerance(dtype));
      EXPECT_LE(distance(std::get<0>(layer_norm_backward(on_gpu(g), on_gpu(x), {}, 1e-5)),
                         std::get<0>(layer_norm_backward(g, x, {}, 1e-5))),
                8 * tolerance(dtype));
    }
  }
}

TEST(CudaRows, Reductions) {
  NEEDS_CUDA_KERNELS();
  const std::vector<std::pair<int64_t, int64_t>> shapes = {{5, 1},     {1, 5},     {33, 16},   {1000, 17}, {257, 64},
                                                           {5000, 24}, {70, 1000}, {3, 70001}, {9000, 128}};
  for (const int64_t dim : {0, 1}) {
    check(
        "sum", [dim](const Tensor& x, const Tensor&) { return sum(x, Ints{dim}); }, shapes, true, 4);
    check(
        "amax", [dim](const Tensor& x, const Tensor&) { return amax(x, Ints{dim}); }, shapes, true);
    check(
        "var", [dim](const Tensor& x, const Tensor&) { return var(x, Ints{dim}); }, {{33, 16}, {70, 1000}, {5000, 24}}, false, 2);
    check(
        "argmax", [dim](const Tensor& x, const Tensor&) { return argmax(x, dim).to(DType::float64); }, shapes, true);
  }
  // Fewer elements: the sum of all of the largest is beyond float16.
  check(
      "sum of all", [](const Tensor& x, const Tensor&) { return sum(x); }, {{5, 1}, {1000, 17}, {257, 64}, {70, 1000}}, false, 4);
  // So many parts of one row that a block merges them.
  check(
      "mean of all", [](const Tensor& x, const Tensor&) { return mean(x); }, {{1200, 1000}}, false, 4);
  check(
      "argmax of all", [](const Tensor& x, const Tensor&) { return argmax(x).to(DType::float64); }, {{1200, 1000}}, true);
}

/// The largest numbers of a dtype, of which two leave it, and those of bfloat16 leave float too.
TEST(CudaRows, SumsAndMeansOfTheLargestNumbers) {
  NEEDS_GPU();
  for (const DType dtype : {DType::bfloat16, DType::float32, DType::float16}) {
    const double large = dtype == DType::float16 ? 6e4 : 3e38;
    for (const int64_t n : {32, 96, 1024, 4096, 50'000, 200'000}) {  // of both kinds of rows, and cut into parts
      SCOPED_TRACE(std::string(name(dtype)) + ", " + std::to_string(n));
      std::vector<double> numbers(static_cast<size_t>(n));
      for (int64_t i = 0; i < n / 32 * 32; ++i) numbers[static_cast<size_t>(i)] = i / 16 % 2 == 0 ? large : -large;
      const Tensor signs = tensor(numbers).to(dtype), same = full({n}, large, dtype);
      for (const int64_t rows : {1, 3, 64}) {
        const Tensor zero = zeros({rows}, dtype), mean_of_same = full({rows}, large, dtype);
        for (const int64_t dim : {0, 1}) {
          const auto on_gpu = [&](const Tensor& row) {
            const Tensor all = expand(row, {rows, n});
            return (dim == 1 ? contiguous(all) : contiguous(transpose(all, 0, 1))).to(Device::cuda());
          };
          EXPECT_EQ(sum(on_gpu(signs), dim).to_vector(), zero.to_vector()) << rows << " sums over dim " << dim;
          EXPECT_EQ(mean(on_gpu(signs), dim).to_vector(), zero.to_vector()) << rows << " means over dim " << dim;
          EXPECT_EQ(mean(on_gpu(same), dim).to_vector(), mean_of_same.to_vector()) << rows << " means over dim " << dim;
        }
      }
    }
  }
}

TEST(CudaRows, PointwiseFunctions) {
  NEEDS_CUDA_KERNELS();
  check(
      "gelu", [](const Tensor& x, const Tensor&) { return gelu(x * 4); }, {{5, 1000}, {33, 8}, {3, 7}}, true);
  check(
      "tanh", [](const Tensor& x, const Tensor&) { return tanh(x); }, {{5, 1000}, {33, 8}, {3, 7}}, true);
  check(
      "add", [](const Tensor& x, const Tensor& y) { return x + y; }, {{5, 1000}, {33, 8}, {3, 7}, {1, 100003}}, true);
}

}  // namespace
}  // namespace deckle
