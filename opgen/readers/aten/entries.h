#pragma once

#include <string>
#include <vector>

#include "opgen/readers/aten/check.h"

namespace opgen::aten {

/// Writes records as entries in the dialect of `ops/SCHEMA.md`, from which opgen makes nodes, wrappers, forward mode and tests.
/// `layer` names a file that chooses them and says what they stand on:
///
///   prefix: aten_                                    # of the new ops
///   definitions: ["maybe_multiply(x, by) = x * by"]  # of what formulas call and the base does not have
///   ops: [{op: exp, samples: unary_float}]           # the chosen ones; what else an entry says is passed on
///
/// An op is native: its value is computed by a function of that name, written by hand on base ops. A formula's call of a chosen
/// op is a call of the new one; all others are left to the base.
std::string entries_of(const Checked& checked, const File& layer, const std::string& from, Problems& problems);

}  // namespace opgen::aten
