#pragma once

#include <string>

#include "opgen/ir/program.h"

namespace opgen::cpp {

/// The three parts of a pointwise kernel: compiled once per instruction set, the export, and the kernel function.
struct PointwiseKernel {
  std::string per_target;
  std::string exported;
  std::string function;
};

PointwiseKernel emit_pointwise_kernel(const Op& op, const Functions& functions);

}  // namespace opgen::cpp
