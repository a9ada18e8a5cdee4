#include "opgen/emit/common/emitter.h"

#include <fmt/format.h>

namespace opgen {

std::vector<Stem> stems_of(const Program& program, const OutputOptions& options) {
  std::vector<Stem> stems;
  for (const auto& op : program.ops) {
    if (op->external) continue;
    auto found = std::find_if(stems.begin(), stems.end(), [&](const Stem& stem) { return stem.name == op->stem; });
    if (found == stems.end()) {
      const auto given = options.shards.find(op->stem);
      const int shards = given == options.shards.end() ? 1 : std::max(1, given->second);
      found = stems.insert(stems.end(), Stem{op->stem, op->at.file, shards, {}});
    }
    found->ops.push_back(op.get());
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
