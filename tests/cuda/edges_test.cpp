// What is rare is on a GPU as it is on the CPU, or refused as it is there: dtypes, addresses, windows and sizes at their edges.
#include <gtest/gtest.h>

#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

const Device kGpu = Device::cuda();

TEST(CudaEdges, ProductsOfIntegersAreModuloTheirRange) {
  NEEDS_GPU();
  for (const DType dtype : {DType::int64, DType::int32, DType::uint8}) {
    const int64_t most = dtype == DType::uint8 ? 256 : int64_t{1} << 31, least = dtype == DType::uint8 ? 0 : -most;
    for (const auto& [m, k, n] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {3, 7, 5}, {64, 64, 64}, {65, 130, 67},
                                  {200, 17, 1}, {0, 3, 2}, {3, 0, 2}}) {
      SCOPED_TRACE(testing::Message() << name(dtype) << " " << m << " " << k << " " << n);
      const Tensor a = randint(least, most, {m, k}).to(dtype), b = randint(least, most, {k, n}).to(dtype);
      const Tensor x = a.to(kGpu), y = b.to(kGpu), turned = b.t().contiguous().to(kGpu).t();
      const Tensor expected = mm(a, b);
      EXPECT_TRUE(all(mm(x, y).to(Device()) == expected).item<bool>());
      EXPECT_TRUE(all(mm(x, turned).to(Device()) == expected).item<bool>());
      EXPECT_TRUE(all(matmul(x, y).to(Device()) == expected).item<bool>());
    }
  }
  const Tensor whole = ones({2, 2, 2}, DType::int64);
  testing::expect_error([&] { bmm(whole.to(kGpu), whole.to(kGpu)); }, "bmm: self is int64");
}

TEST(CudaEdges, IndicesOfOtherDtypesAreRefused) {
  NEEDS_GPU();
  const Tensor weight = ones({5, 3}, DType::float32, kGpu), x = ones({4, 3}, DType::float32, kGpu);
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::uint8}) {
    SCOPED_TRACE(name(dtype));
    const std::string refused = "indices are " + std::string(name(dtype)) + " (expected int64 or int32)";
    const Tensor row = zeros({4}, dtype, kGpu), all = zeros({4, 3}, dtype, kGpu);
    testing::expect_error([&] { embedding(weight, row); }, refused);
    testing::expect_error([&] { index_select(weight, 0, row); }, refused);
    testing::expect_error([&] { index_add(weight, 0, row, x); }, refused);
    testing::expect_error([&] { one_hot(row, 5); }, refused);
    testing::expect_error([&] { gather(weight, 0, all); }, refused);
    testing::expect_error([&] { scatter_add(weight, 0, all, x); }, refused);
  }
  synchronize(kGpu);
  EXPECT_EQ(embedding(weight, zeros({4}, DType::int32, kGpu)).numel(), 12);
}

}  // namespace
}  // namespace deckle
