#pragma once

#include <string>

#include "opgen/model/entry.h"

namespace opgen {

/// Reads an entry file into `library`. `name` stands in messages for `path`. External entries are known but not emitted.
void load_entries(const std::string& path, const std::string& name, bool external, Library& library, Problems& problems);

/// Reads functions.yaml.
void load_functions(const std::string& path, const std::string& name, Library& library, Problems& problems);

}  // namespace opgen
