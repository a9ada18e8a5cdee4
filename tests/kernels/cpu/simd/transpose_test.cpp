// Transposes of matrices of any sizes and strides against a loop.
#include "deckle/kernels/cpu/simd/transpose.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/kernels/cpu/support/buffer.h"

namespace deckle::kernels::cpu::simd {
namespace {

template <typename T>
class Transpose : public ::testing::Test {};
using Types = ::testing::Types<uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(Transpose, Types);

TYPED_TEST(Transpose, MovesEveryElementAndNoOther) {
  using T = TypeParam;
  const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 64, 65, 100, 130};
  for (const int64_t rows : sizes) {
    for (const int64_t cols : sizes) {
      for (const int64_t gap : {0, 3}) {
        const int64_t from_stride = cols + gap, to_stride = rows + gap;
        std::vector<T> from(static_cast<size_t>(rows * from_stride)), to(static_cast<size_t>(cols * to_stride), T{77});
        for (T& element : from) element = static_cast<T>(testing::engine()());
        std::vector<T> want = to;
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < cols; ++c)
            want[static_cast<size_t>(c * to_stride + r)] = from[static_cast<size_t>(r * from_stride + c)];
        }
        transpose(from.data(), from_stride, rows, cols, to.data(), to_stride);
        ASSERT_EQ(to, want) << fmt::format("{} x {}, gap {}", rows, cols, gap);
      }
    }
  }
}

}  // namespace
}  // namespace deckle::kernels::cpu::simd
