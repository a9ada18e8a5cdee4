#pragma once

#include "opgen/model/entry.h"

namespace opgen {

/// auto_linear: the op applied to tangents. auto_element_wise: the reverse formula with the tangent for grad.
void expand_forward(Entry& entry);

}  // namespace opgen
