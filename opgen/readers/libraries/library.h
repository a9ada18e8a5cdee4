#pragma once

#include <string>
#include <vector>

#include "opgen/schema/home.h"
#include "opgen/text/source.h"

namespace opgen {

/// A library of ops, as its library.yaml describes it. Paths are resolved.
struct OpLibrary {
  std::string name;  // the CMake target
  Home home;
  std::string file;  // the library.yaml
  std::vector<std::string> entries;
  std::vector<std::string> functions;
};

/// The libraries of these files and all that they use, each once, the used ones first. Files are named as headers are,
/// acme/ops/library.yaml, and looked for in the folders `include`. `compiled` is the library that is being
/// compiled, which none of them may use, and `version` the Deckle that it is compiled for: others made for another minor version
/// are refused.
std::vector<OpLibrary> load_libraries(const std::vector<std::string>& files, const std::vector<std::string>& include,
                                      const std::string& compiled, const std::string& version, Problems& problems);

/// Why a namespace cannot be that of a library's ops; "" if it can.
std::string why_not_a_namespace(const std::string& space);

}  // namespace opgen
