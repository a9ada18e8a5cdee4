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

}  // namespace
}  // namespace deckle
