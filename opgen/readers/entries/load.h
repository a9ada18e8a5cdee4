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

}  // namespace opgen
