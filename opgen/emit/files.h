#pragma once

#include <map>
#include <string>

#include "opgen/model/load.h"

namespace opgen {

/// Where output goes and how many files share the ops of each entry file.
struct OutputOptions {
  std::string directory;              // the build tree's include root
  std::map<std::string, int> shards;  // by stem; 1 where absent
};

/// Generated files by path below the output directory.
using Files = std::map<std::string, std::string>;

/// Headers, sources and kernels of all ops that are not external. Problems are collected; ops that have any are left out.
Files emit_library(const Library& library, const OutputOptions& options, Problems& problems);

/// Overloads for nested tensors, by entry file.
void emit_nested_files(const Library& library, Files& files);

/// Which of `count` files an op is in: depends on its name alone, so that adding an op changes one file.
int shard_of(const std::string& name, int count);

/// `// Generated from ops/x.yaml ...` for the head of a file.
std::string file_head(const std::string& stem, const Library& library);

}  // namespace opgen
