// Nested tensors on a GPU: what the host waits for.
#include <tuple>
#include <vector>

#include "deckle/core/cuda/counters.h"
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

TEST(CudaNested, PlacesOfExtremaAreNotReadByTheHost) {
  NEEDS_GPU();
  const NestedTensor x = NestedTensor::from_lengths(randn({14, 3}), {5, 1, 0, 8}), there = x.to(kGpu);
  const auto places = [](const NestedTensor& of, int64_t dim) {
    return std::vector<NestedTensor>{argmax(of, dim),
                                     argmin(of, dim, true),
                                     std::get<1>(max(of, dim)),
                                     std::get<1>(median(of, dim)),
                                     std::get<1>(sort(of, dim)),
                                     std::get<1>(cummax(of, dim)),
                                     std::get<1>(topk(of, 2, dim))};
  };
  for (const int64_t dim : {0, 1}) {
    const std::vector<NestedTensor> expected = places(x, dim);
    const int64_t waits = cuda::counters(kGpu).waits;
    const std::vector<NestedTensor> got = places(there, dim);
    EXPECT_EQ(cuda::counters(kGpu).waits, waits) << "over dim " << dim;
    for (size_t i = 0; i < got.size(); ++i) {
      SCOPED_TRACE(i);
      EXPECT_EQ(got[i].values().device(), kGpu);
      testing::expect_equal(got[i].values(), expected[i].values());
    }
  }
}

}  // namespace
}  // namespace deckle
