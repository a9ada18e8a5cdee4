#include "deckle/base/dtype.h"

#include <gtest/gtest.h>

namespace deckle {
namespace {

TEST(DType, ItemSizesAreThoseOfTheElements) {
  for (int number = 0; number < kDTypeCount; ++number) {
    const auto dtype = static_cast<DType>(number);
    visit(dtype, [&]<typename T>(TypeTag<T>) {
      EXPECT_EQ(dtype_of<T>, dtype);
      EXPECT_EQ(item_size(dtype), static_cast<int64_t>(sizeof(T))) << name(dtype);
    });
  }
}

}  // namespace
}  // namespace deckle
