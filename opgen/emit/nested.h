#pragma once

#include <set>
#include <string>
#include <vector>

#include "opgen/model/entry.h"

namespace opgen {

/// The sets of arguments that are nested in an overload each; others stay dense.
std::vector<std::set<std::string>> nested_choices(const Entry& entry);

struct NestedFiles {
  std::string header;  // deckle/nested/generated/<stem>.h
  std::string source;
};

/// The overloads for nested tensors of the ops of one entry file: unwrap, call the op on the values (or the segment op
/// with the raggedness), wrap. Empty strings if no op of the file has any. Throws Problem.
NestedFiles emit_nested(const Library& library, const std::string& stem);

}  // namespace opgen
