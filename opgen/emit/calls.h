#pragma once

#include <map>
#include <set>

#include "opgen/model/load.h"

namespace opgen {

/// The ops that composites of formulas call, by composite; those written in C++ are not known.
using Calls = std::map<const Entry*, std::set<const Entry*>>;
Calls composite_calls(const Library& library);

/// No composite may reach itself.
void check_cycles(const Calls& calls, Problems& problems);

/// What is known of forward mode through all composites; reverse formulas every op has, or it would have been refused.
struct ForwardMode {
  bool exists = true;
  bool by_hand = false;  // as far as composites in C++ have it
};
ForwardMode forward_mode_of(const Entry& entry, const Calls& calls);

}  // namespace opgen
