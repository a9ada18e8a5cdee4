#pragma once

#include "opgen/model/entry.h"
#include "opgen/readers/entries/load.h"
#include "opgen/text/yaml_file.h"

namespace opgen {

/// What an item of an entry file is.
enum class Item { enumeration, record, op };
Item item_of(const Tree& node);

/// Reads `- enum: Name` or `- record: Name`, whose fields may be enums that are known already, into the types of `library`.
/// Throws Problem.
void load_type(const YamlFile& file, const Tree& node, const EntryInput& input, const std::string& stem, Library& library);

}  // namespace opgen
