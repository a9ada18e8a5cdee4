#pragma once

#include <string>

#include "opgen/model/entry.h"

namespace opgen {

/// The three parts of a pointwise kernel: compiled once per instruction set, the export, and the kernel function.
struct PointwiseKernel {
  std::string per_target;
  std::string exported;
  std::string function;
};

PointwiseKernel emit_pointwise_kernel(const Entry& entry, const Library& library);

}  // namespace opgen
