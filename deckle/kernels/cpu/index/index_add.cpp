// result = self, plus source[.., i, ..] at [.., index[i], ..] along dim

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/add_rows.h"

namespace deckle::kernels::cpu {

using namespace indexing;

void index_add(const Context&, const View& self, int64_t dim, const View& index, const View& source, const View& result) {
  add_rows(self, RowShape(self, dim), index, source, result);
}

}  // namespace deckle::kernels::cpu
