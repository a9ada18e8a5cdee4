#pragma once

#include <string>

#include "opgen/emit/cpp/methods.h"
#include "opgen/ir/program.h"

namespace opgen::nested {

bool has_overloads(const Op& op);
/// The overloads of one op, one per choice of nested arguments: declarations, definitions and methods.
void emit_overloads(const Program& program, const Op& op, std::string& header, std::string& source, cpp::Methods& methods);

}  // namespace opgen::nested
