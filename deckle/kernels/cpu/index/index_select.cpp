// result[.., i, ..] = self[.., index[i], ..] along dim

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/take_rows.h"

namespace deckle::kernels::cpu {

using namespace indexing;

void index_select(const Context&, const View& self, int64_t dim, const View& index, const View& result) {
  take_rows(self, RowShape(self, dim), index, result);
}

}  // namespace deckle::kernels::cpu
