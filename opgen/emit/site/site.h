#pragma once

#include <string>

#include "opgen/ir/program.h"

namespace opgen::site {

/// All ops that are not external, with the types that their files declare, as JSON: what pages about them are made from.
std::string json_of(const Program& program);

}  // namespace opgen::site
