#pragma once

#include <string>
#include <vector>

#include "opgen/readers/aten/record.h"

namespace opgen::aten {

/// What a node keeps of an input or a result for its reverse formulas.
struct Saved {
  std::string name;
  bool result = false;
  bool whole = false;                   // else only the properties
  std::vector<std::string> properties;  // sizes, dtype, like (all that zeros_like needs) ...
  std::vector<std::string> only_for;    // read by one formula of several: kept if a gradient of that is wanted
};

/// In the order of the signature, results last.
std::vector<Saved> saved_by(const RuleSet& rules, const Function& function);

/// Whether a name is that of a result: its own, `result` or `resultN`; its number, or -1.
int result_index(const Function& function, const std::string& name);

}  // namespace opgen::aten
