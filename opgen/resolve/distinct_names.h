#pragma once

#include "opgen/model/entry.h"

namespace opgen {

/// No two functions, classes or types of the generated code have one name: ops, their variants, what entry files declare.
void check_distinct_names(const Library& library, Problems& problems);

}  // namespace opgen
