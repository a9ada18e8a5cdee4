#pragma once

#include <cstdint>

#include "deckle/base/dtype.h"

namespace deckle {

/// f(TypeTag<T>{}) with the unsigned integer T that is as large as an element: for kernels that move elements alone.
template <typename F>
decltype(auto) visit_item(DType dtype, F&& f) {
  switch (item_size(dtype)) {
    case 1:
      return f(TypeTag<uint8_t>{});
    case 2:
      return f(TypeTag<uint16_t>{});
    case 4:
      return f(TypeTag<uint32_t>{});
    default:
      return f(TypeTag<uint64_t>{});
  }
}

}  // namespace deckle
