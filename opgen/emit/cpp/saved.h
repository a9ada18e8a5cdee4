#pragma once

#include <string>

#include "opgen/analyze/node.h"

/// What a node keeps, as its fields and as the statements that fill them.
namespace opgen::cpp {

std::string field_type(const Saved& saved);
/// A field of the node.
std::string field_name(const Saved& saved);
/// `node->self.save(self);` with `value` for what is saved.
std::string save_statement(const Op& op, const Saved& saved, const std::string& value);
/// The condition under which some case reads what is saved; "" if that is always so.
std::string case_holds(const Op& op, const Saved& saved);
/// Behind a list that is kept element by element: `, {self, other}`, for whose elements.
std::string readers_of(const Op& op, const Saved& saved);
/// What is saved, where the argument or result is called `source`.
std::string saved_value(const Saved& saved, const std::string& source);

}  // namespace opgen::cpp
