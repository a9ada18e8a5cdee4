#pragma once

#include <string>

#include "opgen/ir/op.h"

namespace opgen::cpp {

/// The first statement of a public function whose entry says `autocast:`: in the scope of an Autocast it calls itself, outside of
/// the scope, on operands of the dtype that the entry wants. "" where the entry says nothing.
std::string convert_operands(const Op& op);

}  // namespace opgen::cpp
