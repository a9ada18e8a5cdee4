#include "deckle/core/tensor.h"

#include "deckle/core/tensor_impl.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::expect_error;
using testing::random_tensor;

TEST(Tensor, AnAliasSeesTheSameMemoryInAnotherOrder) {
  const Tensor x = random_tensor({2, 3});
  const Tensor transposed = alias(x, {3, 2}, {1, 3}, 0);
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j)
      EXPECT_EQ(transposed.to_vector()[static_cast<size_t>(j * 2 + i)], x.to_vector()[static_cast<size_t>(i * 3 + j)]);
  }
  EXPECT_FALSE(transposed.is_contiguous());
  EXPECT_TRUE(x.is_contiguous());
}

TEST(Tensor, AnAliasOutsideItsStorageIsRefused) {
  const Tensor x = random_tensor({6});
  expect_error([&] { alias(x, {4}, {2}, 0); }, "leaves its storage");
  expect_error([&] { alias(x, {2}, {-1}, 0); }, "leaves its storage");
  expect_error([&] { alias(x, {2}, {int64_t{1} << 62}, 0); }, "leaves its storage");
  EXPECT_EQ(alias(x, {0, 9}, {1, 1}, 100).numel(), 0);
}

TEST(Tensor, ItemAndDataCheckWhatTheyAreAskedFor) {
  const Tensor x = random_tensor({2});
  expect_error([&] { x.item(); }, "item: the tensor has shape");
  expect_error([&] { x.data<float>(); }, "float64 (expected float32)");
  expect_error([] { Tensor().sizes(); }, "undefined");
}

TEST(Tensor, PrintsShapeTypeAndAnExcerpt) {
  const Tensor x = testing::tensor_of({1, 2, 3, 4, 5, 6, 7, 8.5}, DType::float32);
  const std::string on = x.device().is_cpu() ? "" : " " + to_string(x.device());
  EXPECT_EQ(to_string(x), "Tensor[8] float32" + on + "\n[1, 2, 3, ..., 6, 7, 8.5]");
  EXPECT_EQ(to_string(alias(x, {2, 2}, {2, 1}, 0)), "Tensor[2, 2] float32" + on + "\n[[1, 2],\n [3, 4]]");
  EXPECT_EQ(to_string(empty({0, 3})), "Tensor[0, 3] float32");
  EXPECT_EQ(to_string(Tensor()), "Tensor(undefined)");
}

}  // namespace
}  // namespace deckle
