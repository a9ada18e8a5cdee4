// Tensors of more elements than 32 bits count.
#include "deckle/core/cuda/pool.h"
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"

namespace deckle {
namespace {

TEST(CudaLarge, ElementsBeyondTwoToThe31) {
  NEEDS_CUDA_KERNELS();
  constexpr int64_t kSize = (int64_t{1} << 31) + 5;
  if (cuda::pool::room(kGpu).available < 6 * kSize) GTEST_SKIP() << "needs 13 GB of the GPU's memory";
  const Tensor x = zeros({kSize}, DType::uint8, kGpu);
  const std::vector<int64_t> places = {0, 1, (int64_t{1} << 31) - 1, int64_t{1} << 31, kSize - 1};
  for (size_t i = 0; i < places.size(); ++i) fill_(slice(x, 0, places[i], places[i] + 1), static_cast<int64_t>(i) + 1);
  const std::vector<double> there = {1, 2, 3, 4, 5};
  const Tensor at = tensor(places).to(kGpu);
  EXPECT_EQ(index_select(x, 0, at).to_vector(), there);
  EXPECT_EQ(sum(x).item(), 15);
  EXPECT_EQ(index_select(x.clone(), 0, at).to_vector(), there);
  const Tensor shifted = empty({kSize + 1}, DType::uint8, kGpu);
  slice(shifted, 0, 1, kSize + 1).copy_(x);  // of another alignment
  EXPECT_EQ(index_select(shifted, 0, at + 1).to_vector(), there);
  EXPECT_EQ(index_select(x + x, 0, at).to_vector(), (std::vector<double>{2, 4, 6, 8, 10}));
  EXPECT_EQ(sum(slice(x, 0, 3, kSize) + slice(x, 0, 0, kSize - 3)).item(), 12 + 10);
}

}  // namespace
}  // namespace deckle
