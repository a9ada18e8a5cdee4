#pragma once

#include <array>
#include <string>

#include "opgen/ir/op.h"

namespace opgen::table {

/// What followed from an entry, in words.
struct Facts {
  std::string kernels;
  std::string saves;
  std::string derivatives;
  std::string ragged;
  std::string autocast;             // "" where it computes in the dtype of its operands
  std::string host;                 // why it computes on the host; "" where its operands are
  std::string cpu_only;             // why it has no CUDA kernel; "" where it has, or needs none
  std::array<std::string, 3> dims;  // over the batch, a ragged and a regular dim; empty: it refuses nested tensors
};

Facts facts_of(const Op& op);
/// Which derivatives there are, by mode and order, and by what.
std::string derivatives_text(const Op& op);

}  // namespace opgen::table
