// Zeros in the rows of a ragged batch's room that no component has.                       values: [rows, ...], offsets: [B + 1]
#include <cstring>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu {
namespace {

void clear(const View& values, int dim, char* at) {
  const int64_t item = item_size(values.dtype);
  if (dim == values.ndim) {
    std::memset(at, 0, static_cast<size_t>(item));
    return;
  }
  for (int64_t i = 0; i < values.sizes[dim]; ++i) clear(values, dim + 1, at + i * values.strides[dim] * item);
}

}  // namespace

void clear_spare_rows(const Context&, const View& values, const View& offsets) {
  const int64_t item = item_size(values.dtype);
  for (int64_t row = offsets.ptr<int64_t>()[offsets.sizes[0] - 1]; row < values.sizes[0]; ++row)
    clear(values, 1, values.ptr<char>() + row * values.strides[0] * item);
}

}  // namespace deckle::kernels::cpu
