#pragma once

#include <string>
#include <vector>

#include "tests/ops/suite.h"

/// What every op promises about history, tangents, aliasing and dtypes, beside the values that suite.h holds it to: checked for
/// each sample of each op. Every property is a cell of a table, op by cell; a program that runs all its tests fails at its end
/// if every sample of an op refused a cell that is not exempt.
namespace deckle::suite {

enum class Cell {
  identity,         // inputs keep storage, version and history; what is written rises in version
  aliasing,         // views lie in their base's storage, all other results in their own
  modes,            // reverse, forward, and the four second orders agree with each other
  special_points,   // so they do at 0, 1, -1, integers, bounds, equal values and infinities
  each_output,      // the gradient of all outputs is the sum of the gradients of each alone
  each_input,       // an input's gradient and tangent do not depend on which others want one
  constant_inputs,  // inputs said to have no derivative: the results do not change with them
  aliased_inputs,   // one tensor in two places: the sum of both gradients
  mixed_dtypes,     // gradients and tangents have the dtypes of their tensors, and the values of float64
  inplace,          // in place on a result: the op's derivatives, in all modes
  inplace_view,     // in place on a part of a base
  inplace_self,     // with itself as another operand
  inplace_overlap,  // with an overlapping view of the same base as another operand
  out_refuses,      // out= where a derivative is wanted
  linear,           // auto_linear: f(a x + b y) = a f(x) + b f(y)
  element_wise,  // auto_element_wise, and pointwise ops of one tensor: each element of the result depends on one element of the
                 // input
};
inline constexpr size_t kCells = 16;

/// Checks all cells that apply to this sample.
void check_semantics(const Case& op);

}  // namespace deckle::suite
