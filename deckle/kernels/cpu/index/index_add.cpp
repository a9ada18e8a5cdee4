// index_add: result = self, plus source[.., i, ..] at [.., index[i], ..] along dim; index_sum: the same from zeros on

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/add_rows.h"

namespace deckle::kernels::cpu {

using namespace indexing;

void index_add(const Context&, const View& self, int64_t dim, const View& index, const View& source, const View& result) {
  add_rows(self, RowShape(self, dim), index, source, result);
}

void index_sum(const Context&, const View& source, int64_t dim, const View& index, int64_t, const View& result) {
  add_rows(View{}, RowShape(result, dim), index, source, result);
}

}  // namespace deckle::kernels::cpu
