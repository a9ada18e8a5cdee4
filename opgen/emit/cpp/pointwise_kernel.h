#pragma once

#include <string>

#include "opgen/ir/program.h"

namespace opgen::cpp {

/// The parts of a pointwise kernel: the expression, which CPUs and GPUs compile from one text; for CPUs what is compiled once
/// per instruction set beside it, the export and the kernel function; what the function for a GPU is made of.
struct PointwiseKernel {
  std::string functor;
  std::string functor_name;
  std::string cuda_functor;  // without what only the CPU's loops ask of it
  std::string expression;    // with its inputs by number: ops of one expression share a GPU's kernels
  std::string blocks;
  std::string exported;
  std::string function;
  std::string cuda_head;   // of the function that launches it on a GPU
  std::string cuda_table;  // of whose kernels: kernels_with_integers
  size_t inputs = 0;
};

/// The function that launches the kernels of `functor` for a GPU.
std::string cuda_function(const PointwiseKernel& kernel, const std::string& functor);

PointwiseKernel emit_pointwise_kernel(const Op& op, const Functions& functions);

}  // namespace opgen::cpp
