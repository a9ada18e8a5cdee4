#pragma once

#include <string>

#include "opgen/ir/program.h"

namespace opgen::cpp {

/// The parts of a pointwise kernel: the expression, which CPUs and GPUs compile from one text; for CPUs what is compiled once
/// per instruction set beside it, the export and the kernel function; the function that launches it on a GPU.
struct PointwiseKernel {
  std::string functor;
  std::string cuda_functor;  // without what only the CPU's loops ask of it
  std::string blocks;
  std::string exported;
  std::string function;
  std::string cuda_function;
};

PointwiseKernel emit_pointwise_kernel(const Op& op, const Functions& functions);

}  // namespace opgen::cpp
