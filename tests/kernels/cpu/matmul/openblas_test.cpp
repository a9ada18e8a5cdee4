// A program of its own: what a process asks OpenBLAS for first must not be special.

#include <gtest/gtest.h>

#include <utility>

#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"

namespace deckle::kernels::cpu {
void solve_matrices(const Context&, const View& self, const View& other, const View& result);
void cholesky(const Context&, const View& self, const View& result);
void mm(const Context&, const View& self, const View& mat2, const View& result);
}  // namespace deckle::kernels::cpu

namespace deckle {
namespace {

using testing::Buffer;
using testing::bytes;
using testing::poisoned;
using testing::random_normal;

TEST(OpenBlas, LinearAlgebraHasTheSameBitsBeforeAndAfterAProduct) {
  constexpr int64_t kSize = 300;
  const Buffer self = random_normal({kSize, kSize}, DType::float64), other = random_normal({kSize, 3}, DType::float64),
               positive = random_normal({kSize, kSize}, DType::float64);
  for (int64_t i = 0; i < kSize; ++i) static_cast<double*>(positive.view.data)[i * kSize + i] += 100;
  const auto results = [&] {
    const Buffer solution = poisoned({kSize, 3}, DType::float64), factor = poisoned({kSize, kSize}, DType::float64);
    kernels::cpu::solve_matrices({}, self.view, other.view, solution.view);
    kernels::cpu::cholesky({}, positive.view, factor.view);
    return std::pair(bytes(solution), bytes(factor));
  };
  const auto before = results();
  const Buffer flat = random_normal({8, 256}, DType::float64), right = random_normal({256, 256}, DType::float64),
               product = poisoned({8, 256}, DType::float64);
  kernels::cpu::mm({}, flat.view, right.view, product.view);
  const auto after = results();
  EXPECT_TRUE(after.first == before.first);
  EXPECT_TRUE(after.second == before.second);
}

}  // namespace
}  // namespace deckle
