#pragma once

#include <string>

#include "opgen/ir/op.h"

namespace opgen::cpp {

/// An op below autograd: its row of kernels, for an unnamed namespace, and its functions, for namespace deckle::raw.
struct RawText {
  std::string row;
  std::string functions;
};

/// With `cuda`, rows have their kernels for GPUs too.
RawText print_raw(const Op& op, bool cuda);

}  // namespace opgen::cpp
