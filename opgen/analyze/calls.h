#pragma once

#include <set>

#include "opgen/ir/program.h"

namespace opgen {

/// What the op's formulas and checks call; of a composite in C++ nothing is known.
std::set<const Op*> calls_of(const Op& op);
/// What its gradient formulas call.
std::set<const Op*> reverse_calls(const Op& op);

/// No composite may reach itself.
void check_cycles(const Program& program, Problems& problems);

/// What is known of forward mode through all composites; reverse formulas every op has, or it would have been refused.
struct ForwardMode {
  bool exists = true;
  bool by_hand = false;  // as far as composites in C++ have it
};
ForwardMode forward_mode_of(const Op& op);

}  // namespace opgen
