// Batches of matmul: broadcast by strides, whatever the order of their dims in memory.
#include <gtest/gtest.h>

#include <limits>

#include "deckle/core/allocator.h"
#include "deckle/core/generator.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

Tensor random_tensor(Ints sizes) {
  Generator generator(11);
  return randn(sizes, {.dtype = DType::float64, .generator = &generator});
}

TEST(Matmul, BroadcastsBatchDimsOnEitherSide) {
  const Tensor a = random_tensor({4, 1, 5, 7}), b = transpose(random_tensor({3, 2, 7}), 1, 2);  // [4, 1] and [3] of batches
  const Tensor product = matmul(a, b);
  ASSERT_EQ(Dims(product.sizes()), (Dims{4, 3, 5, 2}));
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      const Tensor expected = mm(select(select(a, 0, i), 0, 0), select(b, 0, j)), got = select(select(product, 0, i), 0, j);
      for (int64_t row = 0; row < 5; ++row) {
        for (int64_t col = 0; col < 2; ++col)
          EXPECT_EQ(select(select(got, 0, row), 0, col).item(), select(select(expected, 0, row), 0, col).item());
      }
    }
  }
}

TEST(Matmul, WritesNoBroadcastBatchOut) {
  const Tensor a = random_tensor({64, 1, 2, 256}),
               b = random_tensor({8, 256, 2});  // written out, each would be of 64 x 8 matrices: 2 MiB
  reset_peak_memory();
  const int64_t before = memory_stats().in_use;
  const Tensor product = matmul(a, b);
  EXPECT_LT(memory_stats().peak - before, 4 * product.numel() * 8);
}

TEST(Linear, ForwardModeMultipliesNoZeroTangents) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor infinite = full({2, 4}, infinity), weight = ones({3, 4}), bias = zeros({3});
  const auto tangent = [](const auto& f, const Tensor& x) { return jvp(f, x, ones(x.sizes())).second; };
  testing::expect_equal(tangent([&](const Tensor& b) { return linear(infinite, weight, b); }, bias), ones({2, 3}));
  testing::expect_equal(tangent([&](const Tensor& x) { return linear(x, weight, bias); }, infinite), full({2, 3}, 4.0));
  testing::expect_equal(tangent(
                            [&](const Tensor& w) {
                              return linear(ones({2, 4}), w, bias);
                            },
                            full({3, 4}, infinity)),
                        full({2, 3}, 4.0));
}

}  // namespace
}  // namespace deckle
