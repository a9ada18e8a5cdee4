#pragma once

#include <string>

#include "opgen/model/entry.h"

namespace opgen {

/// Problems found so far; loading goes on after each so that one run shows all of them.
using Problems = std::vector<std::string>;

/// Reads an entry file into `library`. `name` stands in messages for `path`. External entries are known but not emitted.
void load_entries(const std::string& path, const std::string& name, bool external, Library& library, Problems& problems);

/// Reads functions.yaml.
void load_functions(const std::string& path, const std::string& name, Library& library, Problems& problems);

}  // namespace opgen
