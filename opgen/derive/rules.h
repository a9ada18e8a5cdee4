#pragma once

#include "opgen/model/entry.h"

namespace opgen {

/// Turns `derivative: auto`, and formulas of pointwise ops that are pointwise expressions themselves, into formulas made of
/// ops: public ops where one op is enough, else fused kernels, which are appended to the library as derived entries (first
/// and second order; from the third on, derivatives are compositions of public ops). Expands auto_linear and
/// auto_element_wise.
void derive_rules(Library& library, Problems& problems);

}  // namespace opgen
