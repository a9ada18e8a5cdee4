#pragma once

#include <string>
#include <vector>

#include "opgen/emit/common/emitter.h"

namespace opgen {

/// A file to read, and how messages call it.
struct Input {
  std::string path;
  std::string name;
  Home home;
};

struct Inputs {
  std::vector<Input> functions;
  std::vector<Input> known;  // entries that formulas may call but that are compiled elsewhere
  std::vector<Input> entries;
  std::string root;  // of the repository, where claimed kernels must exist; "": not checked
  Home home;         // of the entries
};

struct CompileOptions {
  OutputOptions output;
  bool core = false;  // these are the library's own ops: the table behind `deckle ops`, and no kernel without an op
  bool tests = false;
};

/// Entries as the typed tree that printers read. With any problem, the tree is not to be used.
Program analyze(const Inputs& inputs, bool core, Problems& problems);

/// Entries to C++. With any problem, nothing is returned; `notes` tells which derivatives do not exist.
Files compile(const Inputs& inputs, const CompileOptions& options, Problems& problems, std::vector<std::string>& notes);

}  // namespace opgen
