// Elements repeated as often as a vector has lanes, fewer times and more often.
#include "deckle/kernels/cpu/simd/repeat.h"

#include <gtest/gtest.h>

#include "tests/kernels/cpu/support/buffer.h"

namespace deckle::kernels::cpu::simd {
namespace {

template <typename T>
class Repeat : public ::testing::Test {};
using Types = ::testing::Types<uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(Repeat, Types);

TYPED_TEST(Repeat, WritesEveryElementAndNoOther) {
  using T = TypeParam;
  for (const int64_t count : {0, 1, 2, 3, 8, 21}) {
    for (const int64_t times : {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 100}) {
      std::vector<T> from(static_cast<size_t>(count)), to(static_cast<size_t>(count * times) + 2, T{77}), want = to;
      for (T& element : from) element = static_cast<T>(testing::engine()());
      for (int64_t i = 0; i < count * times; ++i) want[static_cast<size_t>(i) + 1] = from[static_cast<size_t>(i / times)];
      repeat_each(from.data(), count, times, to.data() + 1);
      ASSERT_EQ(to, want) << count << " " << times;
    }
  }
}

}  // namespace
}  // namespace deckle::kernels::cpu::simd
