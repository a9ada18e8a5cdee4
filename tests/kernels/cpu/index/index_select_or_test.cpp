#include <fmt/format.h>
#include <gtest/gtest.h>

#include "deckle/base/error.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/number.h"
#include "tests/kernels/cpu/support/buffer.h"

namespace deckle::kernels::cpu {
void index_select_or(const Context&, const View& self, const View& index, const Number& fill, const View& result);
void index_add_or(const Context&, const View& source, const View& index, int64_t rows, const View& result);
}  // namespace deckle::kernels::cpu

namespace deckle {
namespace {

using testing::Buffer;
using testing::expect_close;
using testing::poisoned;
using testing::random_integers;
using testing::values;

TEST(IndexSelectOr, TakesRowsAndFillsWhereThereIsNone) {
  for (const DType dtype :
       {DType::uint8, DType::int32, DType::int64, DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    for (const DType index_dtype : {DType::int32, DType::int64}) {
      for (const int64_t width : {1, 7, 300}) {
        const Buffer self = random_integers({11, width}, dtype, 0, 100), index = random_integers({23}, index_dtype, -1, 11);
        const Buffer result = poisoned({23, width}, dtype), sums = poisoned({11, width}, dtype);
        kernels::cpu::index_select_or({}, self.view, index.view, Number{3.0, 3}, result.view);
        const std::vector<double> rows = values(self.view), at = values(index.view);
        std::vector<double> want, back(static_cast<size_t>(11 * width), 0.0);
        for (const double row : at) {
          for (int64_t c = 0; c < width; ++c)
            want.push_back(row < 0 ? 3.0 : rows[static_cast<size_t>(static_cast<int64_t>(row) * width + c)]);
        }
        expect_close(result.view, want, 0);
        if (dtype == DType::uint8 || item_size(dtype) == 2) continue;  // sums do not fit
        kernels::cpu::index_add_or({}, result.view, index.view, 11, sums.view);
        for (size_t i = 0; i < at.size(); ++i) {
          for (int64_t c = 0; at[i] >= 0 && c < width; ++c)
            back[static_cast<size_t>(static_cast<int64_t>(at[i]) * width + c)] +=
                want[i * static_cast<size_t>(width) + static_cast<size_t>(c)];
        }
        expect_close(sums.view, back, 0);
      }
    }
  }
}

TEST(IndexSelectOr, NamesAnIndexOutOfRange) {
  const Buffer self = random_integers({3, 2}, DType::float32, 0, 9), result = poisoned({1, 2}, DType::float32);
  for (const int64_t bad : {-2, 3}) {
    const Buffer index = random_integers({1}, DType::int64, bad, bad + 1);
    try {
      kernels::cpu::index_select_or({}, self.view, index.view, Number{}, result.view);
      ADD_FAILURE() << "no error for " << bad;
    } catch (const Error& error) {
      EXPECT_NE(error.message().find(fmt::format("index {} is out of range (expected 0..2)", bad)), std::string::npos)
          << error.message();
    }
  }
}

}  // namespace
}  // namespace deckle
