#pragma once

#include "opgen/model/entry.h"
#include "opgen/text/yaml_file.h"

namespace opgen {

/// Reads `{because: REASON, header: FILE, functions: [{func, doc, calls}, ...]}`: public functions without entries. Throws
/// Problem.
void load_by_hand(const YamlFile& file, const Tree& node, Library& library);

}  // namespace opgen
