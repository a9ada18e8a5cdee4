#include "opgen/emit/common/emitter.h"

#include <fmt/format.h>

namespace opgen {

void Files::add(const std::string& path, std::string contents, const std::string& source) {
  const auto [other, added] = sources_.emplace(path, source);
  if (!added)
    throw Problem({source, 1, 1},
                  fmt::format("'{}' is what is made from {} too: give one of the two files another name", path, other->second));
  contents_.emplace(path, std::move(contents));
}

std::vector<Stem> stems_of(const Program& program, const OutputOptions& options) {
  std::vector<Stem> stems;
  const auto stem_of = [&](const std::string& name, const std::string& source) -> Stem& {
    const auto found = std::find_if(stems.begin(), stems.end(), [&](const Stem& stem) { return stem.name == name; });
    if (found != stems.end()) return *found;
    const auto given = options.shards.find(name);
    const int shards = given == options.shards.end() ? 1 : std::max(1, given->second);
    return stems.emplace_back(Stem{name, source, shards, program.home, {}, {}, {}});
  };
  for (const auto& op : program.ops) {
    if (!op->external) stem_of(op->stem, op->at.file).ops.push_back(op.get());
  }
  for (const auto& type : program.enums) {
    if (!type->external) stem_of(type->stem, type->at.file).enums.push_back(type.get());
  }
  for (const auto& type : program.records) {
    if (!type->external) stem_of(type->stem, type->at.file).records.push_back(type.get());
  }
  return stems;
}

int shard_of(const std::string& name, int count) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char character : name) hash = (hash ^ static_cast<unsigned char>(character)) * 16777619u;
  return static_cast<int>(hash % static_cast<uint32_t>(count));
}

std::string file_head(const Stem& stem) {
  return fmt::format("// Generated from {}; change the entries, not this file.\n", stem.source);
}

}  // namespace opgen
