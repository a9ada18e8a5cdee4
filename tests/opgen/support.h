#pragma once

#include <string>
#include <vector>

#include "opgen/compile.h"
#include "tests/support/temporary_folder.h"

namespace opgen::testing {

inline const std::string kFolder = OPGEN_TESTS;

/// A path in a folder that this process alone has: several may run these tests at once.
inline std::string temporary_path(const std::string& name) {
  static const deckle::TemporaryFolder folder;
  return (folder / name).string();
}

struct Outcome {
  Files files;
  Problems problems;
  std::vector<std::string> notes;
};

/// Compiles one entry file of this folder against base.yaml and functions.yaml; `core_root`: as the library's own, with kernels
/// there.
inline Inputs inputs_of(const std::string& path, const std::string& name, const std::string& core_root = "") {
  Inputs inputs;
  inputs.functions = {{kFolder + "/functions.yaml", "functions.yaml"}};
  inputs.known = {{kFolder + "/base.yaml", "base.yaml"}};
  inputs.entries = {{path, name}};
  inputs.root = core_root.empty() ? kFolder + "/../.." : core_root;
  return inputs;
}

inline Outcome compile_file(const std::string& path, const std::string& name, const std::string& core_root = "",
                            bool cuda = false) {
  Outcome outcome;
  const Inputs inputs = inputs_of(path, name, core_root);
  CompileOptions options;
  options.core = !core_root.empty();
  options.tests = true;
  options.output.cuda = cuda;
  outcome.files = compile(inputs, options, outcome.problems, outcome.notes);
  return outcome;
}

inline ExprPtr parse(const std::string& text) { return inline_lets(parse_formula(Text(text, Position{"formula", 1, 1}))); }

}  // namespace opgen::testing
