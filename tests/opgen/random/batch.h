#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/opgen/random/entry.h"

namespace deckle::random_entries {

/// Generates, compiles and checks entries, which may call one another, in a process of their own. What is wrong, by entry;
/// "" stands for the batch as a whole. `seed` draws the points.
std::map<std::string, std::string> failures_of(const std::vector<Entry>& entries, uint64_t seed);

}  // namespace deckle::random_entries
