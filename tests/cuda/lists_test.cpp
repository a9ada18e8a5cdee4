// Norms and products of lists on a GPU beside the CPU's: more tensors than a launch takes, of every dtype, of no and of odd
// sizes, with strides and at odd addresses.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"

namespace deckle {
namespace {

using Tensors = std::vector<Tensor>;

const DType kTypes[] = {DType::float32, DType::bfloat16, DType::float64, DType::float16};

/// Of sizes around those of vectors and parts, and many small ones; some are every other column of a matrix, some begin at odd
/// addresses. `first` turns the dtypes.
Tensors tensors(size_t first, unsigned seed) {
  std::mt19937 random(seed), of_sizes(5);
  std::normal_distribution<double> normal;
  std::vector<int64_t> sizes{0, 1, 7, 8, 9, 4095, 4096, 4097, 8191, 8193, 12'345, 100'003};
  if (!cuda::fake()) sizes.push_back(4096 * 1024 + 5), sizes.push_back(2 * 4096 * 1024 + 11);  // more parts than a tensor has
  while (sizes.size() < 211) sizes.push_back(static_cast<int64_t>(of_sizes() % 500));
  Tensors result;
  for (size_t i = 0; i < sizes.size(); ++i) {
    std::vector<double> numbers(static_cast<size_t>(2 * sizes[i] + 2));
    for (double& x : numbers) x = normal(random);
    const Tensor all = tensor(numbers).to(kTypes[(first + i) % 4]);
    if (i % 3 == 0)
      result.push_back(all.slice(0, 0, sizes[i]).clone());
    else if (i % 3 == 1)
      result.push_back(all.slice(0, 1, sizes[i] + 1));
    else
      result.push_back(select(all.view({sizes[i] + 1, 2}), 1, 1).slice(0, 1, sizes[i] + 1));
  }
  return result;
}

/// With the strides and addresses that they have on the CPU.
Tensors there(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& x : tensors) {
    const Tensor memory = empty({2 * x.numel() + 2}, x.dtype(), Device::cuda());
    const Tensor place = x.dim() == 1 && x.numel() > 0 && x.strides()[0] == 2
                             ? select(memory.view({x.numel() + 1, 2}), 1, 1).slice(0, 1, x.numel() + 1)
                             : memory.slice(0, x.offset() % 2, x.numel() + x.offset() % 2);
    place.copy_(x);
    result.push_back(place);
  }
  return result;
}

/// Relative to `size`, what the sums may have lost.
void expect_near(const Tensor& got, const Tensor& expected, const Tensor& size) {
  const std::vector<double> a = got.to_vector(), b = expected.to_vector(), of = size.to_vector();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-14 * of[i]) << "tensor " << i;
}

TEST(CudaLists, NormsAndProductsAreTheCpus) {
  NEEDS_GPU();
  for (size_t first = 0; first < 4; ++first) {
    const Tensors x = tensors(first, 1), y = tensors(first, 2), a = there(x), b = there(y);
    const Tensor norms = foreach_norm(x), size = norms * foreach_norm(y) + 1e-300;
    expect_near(foreach_norm(a), norms, norms);
    expect_near(foreach_dot(a, b), foreach_dot(x, y), size);
    const Tensor divisor = arange(static_cast<int64_t>(x.size()), DType::float32) + 0.5;
    expect_near(foreach_dot_over(a, b, divisor.to(Device::cuda())), foreach_dot_over(x, y, divisor), size / divisor);
  }
}

TEST(CudaLists, ANormHasTheSameBitsInEveryListAndRun) {
  NEEDS_GPU();
  const Tensors x = there(tensors(0, 3));
  const std::vector<double> norms = foreach_norm(x).to_vector(), dots = foreach_dot(x, x).to_vector();
  EXPECT_EQ(foreach_norm(x).to_vector(), norms);
  const Tensors backwards(x.rbegin(), x.rend());
  EXPECT_EQ(foreach_norm(backwards).to_vector(), std::vector<double>(norms.rbegin(), norms.rend()));
  EXPECT_EQ(foreach_dot(backwards, backwards).to_vector(), std::vector<double>(dots.rbegin(), dots.rend()));
  for (size_t i = 0; i < 14; ++i) EXPECT_EQ(foreach_norm({x[i]}).item(), norms[i]) << "tensor " << i;
}

TEST(CudaLists, BitsDoNotDependOnWhereATensorBegins) {
  NEEDS_GPU();
  std::mt19937 random(7);
  std::normal_distribution<double> normal;
  for (const int64_t size : {1, 7, 8, 9, 2047, 2048, 2049, 4097, 12'345, 100'003}) {
    std::vector<double> numbers(static_cast<size_t>(size));
    for (double& x : numbers) x = normal(random);
    for (const DType dtype : kTypes) {
      const Tensor x = tensor(numbers).to(dtype).to(Device::cuda());
      const double norm = foreach_norm({x}).item(), dot = foreach_dot({x}, {x}).item();
      for (const int64_t begin : {1, 3, 5}) {
        const Tensor same = slice(empty({size + 8}, dtype, Device::cuda()), 0, begin, begin + size);
        same.copy_(x);
        EXPECT_EQ(foreach_norm({same}).item(), norm) << name(dtype) << ", " << size << " elements from " << begin;
        EXPECT_EQ(foreach_dot({same}, {same}).item(), dot) << name(dtype) << ", " << size << " elements from " << begin;
        EXPECT_EQ(foreach_dot({same}, {x}).item(), dot) << name(dtype) << ", " << size << " elements from " << begin;
      }
    }
  }
}

TEST(CudaLists, OfNumbersWhoseSquaresOverflowOrVanish) {
  NEEDS_GPU();
  const double inf = std::numeric_limits<double>::infinity();
  const auto row = [](double x) { return full({40'003}, x, DType::float64).to(Device::cuda()); };
  const Tensor one = row(1);
  one.slice(0, 20'000, 20'001).fill_(1e200);
  const std::vector<double> norms =
      foreach_norm({row(1e200), row(1e-200), one, row(inf), row(0), full({5}, inf).to(Device::cuda()),
                    full({5}, std::nan("")).to(Device::cuda()), full({5}, 1e-45).to(Device::cuda())})
          .to_vector();
  EXPECT_NEAR(norms[0] / (1e200 * std::sqrt(40'003.0)), 1, 1e-12);
  EXPECT_NEAR(norms[1] / (1e-200 * std::sqrt(40'003.0)), 1, 1e-12);
  EXPECT_EQ(norms[2], 1e200);
  EXPECT_EQ(norms[3], inf);
  EXPECT_EQ(norms[4], 0);
  EXPECT_EQ(norms[5], inf);
  EXPECT_TRUE(std::isnan(norms[6]));
  EXPECT_NEAR(norms[7] / (0x1p-149 * std::sqrt(5.0)), 1, 1e-14);
}

}  // namespace
}  // namespace deckle
