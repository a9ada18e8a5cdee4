#pragma once

#include <string>
#include <string_view>

#include "tests/ops/semantic_suite.h"

/// The table of what was compared, op by cell, and of what is not and why.
namespace deckle::suite {

std::string_view cell_name(Cell cell);

/// Notes that a cell was compared on a sample of the op.
void compared(const Case& op, Cell cell);
/// Notes that the op itself refuses what the cell asks of this sample.
void refused_by_op(const Case& op, Cell cell, const std::string& message);

/// Whether the table of exemptions names the op and the cell; notes that it was asked.
bool exempt(const Case& op, Cell cell);

}  // namespace deckle::suite
