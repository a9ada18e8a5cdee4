#pragma once

#include <functional>
#include <string>

#include "opgen/ir/op.h"

namespace opgen::cpp {

/// The first statement of a public function whose entry says `autocast:`: in the scope of an Autocast it calls itself, outside of
/// the scope, on operands of the dtype that the entry wants, spelled by `convert`. "" where the entry says nothing.
std::string convert_operands(const Op& op, const std::function<std::string(const Argument&)>& convert);
/// Of tensors.
std::string convert_operands(const Op& op);

/// The first statement of a variant that writes: its operands stay as they are, and its formulas run outside of the scope as
/// those of the op itself do.
std::string leave_scope(const Op& op);

}  // namespace opgen::cpp
