// Rows of a matrix in reverse order.                                        self, result: [rows, columns], contiguous
#include <algorithm>
#include <cstring>

#include "mine/ops/kernels/squash.h"

namespace mine::kernels::cpu {

void reversed_rows(const deckle::Context&, const deckle::View& self, const deckle::View& result) {
  const int64_t rows = self.sizes[0], bytes = self.sizes[1] * deckle::item_size(self.dtype);
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(result.ptr<char>() + row * bytes, self.ptr<char>() + (rows - 1 - row) * bytes, static_cast<size_t>(bytes));
  }
}

}  // namespace mine::kernels::cpu
