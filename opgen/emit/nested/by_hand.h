#pragma once

#include <string>

#include "opgen/ir/op.h"

/// What stands around overloads that are written by hand.
namespace opgen::nested {

/// What they do over each kind of dim, as a comment.
std::string over_comment(const Op& op);
/// Statements in front of them: what the entry refuses. `first`: the first nested argument.
std::string refusals(const Op& op, const std::string& first);
/// The statement that its last dim is a regular one.
std::string require_rows(const std::string& first);

}  // namespace opgen::nested
