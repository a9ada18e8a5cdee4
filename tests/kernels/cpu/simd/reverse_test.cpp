// Runs in reverse order, of any length.
#include "deckle/kernels/cpu/simd/reverse.h"

#include <gtest/gtest.h>

#include "tests/kernels/cpu/support/buffer.h"

namespace deckle::kernels::cpu::simd {
namespace {

template <typename T>
class Reverse : public ::testing::Test {};
using Types = ::testing::Types<uint8_t, uint16_t, uint32_t, uint64_t>;
TYPED_TEST_SUITE(Reverse, Types);

TYPED_TEST(Reverse, WritesEveryElementAndNoOther) {
  using T = TypeParam;
  for (int64_t count = 0; count < 150; ++count) {
    std::vector<T> from(static_cast<size_t>(count)), to(static_cast<size_t>(count) + 2, T{77});
    for (T& element : from) element = static_cast<T>(testing::engine()());
    std::vector<T> want(from.rbegin(), from.rend());
    want.insert(want.begin(), T{77});
    want.push_back(T{77});
    reverse(from.data(), count, to.data() + 1);
    ASSERT_EQ(to, want) << count;
  }
}

}  // namespace
}  // namespace deckle::kernels::cpu::simd
