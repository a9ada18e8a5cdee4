#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "opgen/schema/schema.h"

namespace opgen::aten {

/// The first candidate that the arguments fit best, and its place; null if none takes them. What a method is called on is the
/// first argument, and serves as `self`, wherever that stands. An argument of unknown type fits anywhere.
std::pair<const Schema*, size_t> best_overload(const std::vector<const Schema*>& candidates,
                                               const std::vector<std::optional<Type>>& arguments, bool method);

}  // namespace opgen::aten
