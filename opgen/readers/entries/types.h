#pragma once

#include "opgen/model/entry.h"
#include "opgen/text/yaml_file.h"

namespace opgen {

/// Whether an item of an entry file declares a type instead of an op.
bool declares_type(const Tree& node);

/// Reads `- enum: Name` into the types of `library`. Throws Problem.
void load_type(const YamlFile& file, const Tree& node, const std::string& stem, bool external, Library& library);

}  // namespace opgen
