#pragma once

#include <string>
#include <vector>

#include "opgen/model/entry.h"

namespace opgen {

/// An entry file; `name` stands in messages for `path`. External entries are known but not emitted.
struct EntryInput {
  std::string path;
  std::string name;
  bool external = false;
  Home home;
};

/// Reads entry files into `library`: the types that any of them declares, then the ops of all.
void load_entries(const std::vector<EntryInput>& inputs, Library& library, Problems& problems);

/// Reads functions.yaml, Deckle's or another library's.
void load_functions(const std::string& path, const std::string& name, Library& library, Problems& problems,
                    const Home& home = {});

/// Gives words of formulas their meaning, and entries with `nested: {segment: KERNELS}` or `{segment: true}` their ragged form:
/// an op of its own, made of the same formulas read over the rows of each component of a Ragged.
void add_ragged_forms(Library& library, Problems& problems);

}  // namespace opgen
