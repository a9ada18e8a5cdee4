#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "opgen/ir/sample.h"
#include "opgen/schema/schema.h"
#include "opgen/text/tree.h"

/// What a sample writes for an argument, checked; each throws Problem at the place that is wrong.
namespace opgen::sample_values {

/// One number or bool for an argument of type `base`, as formulas write it: 2.5, -inf, true.
std::string number(const Tree& node, Base base);
std::string dtype(const Tree& node);
/// Lengths of components, or sizes with several ragged dims.
SampleArgument ragged(const Tree& node);
SampleTensor tensor(const Tree& node);

}  // namespace opgen::sample_values
