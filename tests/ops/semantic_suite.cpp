#include "tests/ops/semantic_suite.h"

#include <gtest/gtest.h>

#include "tests/ops/semantic_cells.h"
#include "tests/ops/semantic_checks.h"

namespace deckle::suite {

void check_semantics(const Case& op) {
  const auto cell = [&](Cell which, const auto& check) {
    try {
      check(op);
    } catch (const Error& error) {
      ADD_FAILURE() << cell_name(which) << ": " << error.message();
    }
  };
  const bool unary = op.pointwise && op.derivatives && op.tensors.size() == 1;  // acts element by element, whatever is claimed
  const bool repeatable = op.layouts;                                           // random ops draw anew at each call
  cell(Cell::identity, check_identity);
  if (repeatable) cell(Cell::constant_inputs, check_constant_inputs);
  cell(Cell::out_refuses, check_out_refuses);
  if (op.derivatives) {
    cell(Cell::modes, check_modes);
    cell(Cell::special_points, check_special_points);
    cell(Cell::each_output, check_each_output);
    cell(Cell::each_input, check_each_input);
    cell(Cell::aliased_inputs, check_aliased_inputs);
    cell(Cell::mixed_dtypes, check_mixed_dtypes);
  }
  if (op.linear) cell(Cell::linear, check_linear);
  if (op.element_wise || unary) cell(Cell::element_wise, check_element_wise);
  cell(Cell::inplace, check_inplace);
  if (op.derivatives) cell(Cell::inplace_self, check_inplace_operands);
}

}  // namespace deckle::suite
