#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "opgen/ir/program.h"

namespace opgen {

/// Generated files by path below the output directory, each with what it is made from.
class Files {
 public:
  /// Throws Problem if the path is that of a file made from something else, which this one would overwrite.
  void add(const std::string& path, std::string contents, const std::string& source);

  const std::string& at(const std::string& path) const { return contents_.at(path); }
  size_t count(const std::string& path) const { return contents_.count(path); }
  bool empty() const { return contents_.empty(); }
  auto begin() const { return contents_.begin(); }
  auto end() const { return contents_.end(); }

 private:
  std::map<std::string, std::string> contents_;
  std::map<std::string, std::string> sources_;
};

struct OutputOptions {
  std::map<std::string, int> shards;  // how many files share the ops of an entry file, by stem; 1 where absent
  bool cuda = false;                  // kernel rows have a second slot, and every pointwise expression a kernel in it
};

/// One kind of output. `notes` are for the reader of the build's log.
struct Emitter {
  const char* name;
  void (*emit)(const Program& program, const OutputOptions& options, Files& files, std::vector<std::string>& notes);
};

/// The ops of one entry file, and how they are spread.
struct Stem {
  std::string name;
  std::string source;  // ops/pointwise.yaml
  int shards = 1;
  Home home;
  std::vector<const Op*> ops;
  std::vector<const EnumType*> enums;  // that it declares
  std::vector<const RecordType*> records;
};
/// The stems of all ops and types that are not external.
std::vector<Stem> stems_of(const Program& program, const OutputOptions& options);

/// Which of `count` files an op is in: depends on its name alone, so that adding an op changes one file.
int shard_of(const std::string& name, int count);

/// `// Generated from ops/x.yaml ...` for the head of a file.
std::string file_head(const Stem& stem);

}  // namespace opgen
