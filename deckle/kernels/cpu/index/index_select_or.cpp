// result[i, :] = self[index[i], :], or `fill` where index[i] is -1; and its transpose, which sums rows.
//
// Reads and writes every byte of the result once.

#include <algorithm>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/number.h"
#include "deckle/kernels/cpu/index/add_rows.h"
#include "deckle/kernels/cpu/simd/convert_element.h"

namespace deckle::kernels::cpu {

using namespace indexing;

void index_select_or(const Context&, const View& self, const View& index, const Number& fill, const View& result) {
  const RowShape shape(self, 0);
  visit(self.dtype, [&]<typename T>(TypeTag<T>) {
    const auto* from = self.ptr<const T>();
    auto* to = result.ptr<T>();
    const T filler = std::is_integral_v<T> ? simd::convert<T>(fill.integer) : simd::convert<T>(fill.real);
    visit_index(index, [&](const auto* indices) {
      parallel_for(index.numel(), grain_of(shape.inner * item_size(self.dtype)), [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const auto row = static_cast<int64_t>(indices[i]);
          if (row == -1) {
            std::fill_n(to + i * shape.inner, shape.inner, filler);
          } else {
            check_index(row, shape.rows);
            std::copy_n(from + row * shape.inner, shape.inner, to + i * shape.inner);
          }
        }
      });
    });
  });
}

void index_add_or(const Context&, const View& source, const View& index, int64_t rows, const View& result) {
  add_rows(View{}, RowShape(1, rows, RowShape(source, 0).inner), index, source, result, true);
}

}  // namespace deckle::kernels::cpu
