#pragma once

#include <set>
#include <string>

#include "opgen/emit/common/emitter.h"

namespace opgen::cpp {

/// The header of the types that an entry file declares, for ops and kernels alike; "" if it declares none.
std::string types_header(const Stem& stem);

/// `#include` lines for the types in the signatures of `stem`'s ops, or of their kernels, and for those that it declares.
std::string type_includes(const Stem& stem, bool kernels);

}  // namespace opgen::cpp
