#pragma once

#include <random>
#include <vector>

#include "tests/opgen/random/entry.h"
#include "tests/opgen/random/interpreter.h"

namespace deckle::random_entries {

using Engine = std::mt19937_64;

/// An entry whose derivatives exist at most points that draw_point() gives; a composite may call `earlier` ones.
Entry draw_entry(Engine& engine, Entry::Kind kind, const std::string& name, const Entries& earlier);

/// Values of the entry's tensors, away from kinks and poles; empty if none were found.
std::vector<Array> draw_point(Engine& engine, const Entry& entry, const Entries& others);

/// The tensors of an entry as leaves of its trees: names, and elements of lists.
std::vector<ExprPtr> leaves_of(const Entry& entry);

/// Their sizes.
std::vector<Sizes> sizes_of(const Entry& entry);

}  // namespace deckle::random_entries
