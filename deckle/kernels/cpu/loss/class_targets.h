#pragma once

#include <cstdint>
#include <string>

#include "deckle/base/error.h"

namespace deckle::kernels::cpu {

/// Throws for a class that does not exist.
inline void check_class(int64_t target, int64_t row, int64_t classes) {
  if (target >= 0 && target < classes) [[likely]]
    return;
  throw Error("target " + std::to_string(target) + " in row " + std::to_string(row) + " is no class (expected 0.." +
              std::to_string(classes - 1) + " or ignore_index)");
}

}  // namespace deckle::kernels::cpu
