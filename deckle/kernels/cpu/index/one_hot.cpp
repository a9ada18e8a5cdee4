// self: [...], result: int64 [..., classes], 1 at the class of each element and 0 elsewhere

#include <algorithm>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/index/rows.h"

namespace deckle::kernels::cpu {

using namespace indexing;

void one_hot(const Context&, const View& self, int64_t classes, const View& result) {
  auto* to = result.ptr<int64_t>();
  visit_index(self, [&](const auto* indices) {
    parallel_for(self.numel(), grain_of(8 * classes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        check_index(static_cast<int64_t>(indices[i]), classes);
        std::fill_n(to + i * classes, classes, 0);
        to[i * classes + static_cast<int64_t>(indices[i])] = 1;
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
