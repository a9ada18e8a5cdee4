#pragma once

#include <string>

#include "opgen/emit/common/emitter.h"

namespace opgen::cpp {

/// What the public function of the op returns: of a method with several results a struct with their names.
std::string public_return_type(const Op& op);

/// What the declarations of methods name: those structs, and enums.
void emit_method_types(const Program& program, Files& files);

}  // namespace opgen::cpp
