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

/// Which derivatives exist, through all composites. `by_hand`: as far as composites in C++ do not take them away.
struct Existence {
  bool reverse = true;
  bool forward = true;
  bool by_hand = false;
};
Existence derivatives_of(const Entry& entry, const Calls& calls);

/// Whether the reverse formulas are made of ops that have reverse formulas.
bool has_second_order(const Entry& entry, const Library& library, const Calls& calls);

}  // namespace opgen
