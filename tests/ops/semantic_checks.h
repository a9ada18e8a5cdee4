#pragma once

#include "tests/ops/semantic_suite.h"

/// Each holds one sample to a cell, or to two that are made alike, and notes what it compared.
namespace deckle::suite {

void check_identity(const Case& op);  // and aliasing
void check_constant_inputs(const Case& op);
void check_linear(const Case& op);
/// The op is said to read sizes and dtypes alone of these tensors.
void check_metadata(const Case& op, const std::vector<bool>& unread);
/// The same call, of which only these results are looked at.
Case of_results(const Case& op, const std::vector<size_t>& results);
void check_element_wise(const Case& op);

void check_modes(const Case& op);
void check_special_points(const Case& op);
void check_each_output(const Case& op);
void check_each_input(const Case& op);
void check_aliased_inputs(const Case& op);
void check_mixed_dtypes(const Case& op);

void check_inplace(const Case& op);           // and inplace_view
void check_inplace_operands(const Case& op);  // inplace_self and inplace_overlap
void check_out_refuses(const Case& op);

}  // namespace deckle::suite
