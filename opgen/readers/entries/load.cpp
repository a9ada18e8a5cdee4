#include "opgen/readers/entries/load.h"

#include <fmt/format.h>

#include <filesystem>

#include "opgen/readers/entries/entry.h"
#include "opgen/readers/entries/types.h"

namespace opgen {
namespace {

/// One entry file, whose items are read by kind.
struct EntryFile {
  YamlFile yaml;
  std::string stem;
  EntryInput input;

  /// Calls `load` for every item of the kind; problems of an item do not touch the next.
  template <typename Load>
  void each(Item kind, Problems& problems, const Load& load) const {
    for (const auto& [ignored, node] : yaml.root().branches()) {
      if (item_of(node) == kind) attempt(problems, [&] { load(node); });
    }
  }
};

void load_entry(const EntryFile& file, const Tree& node, Library& library) {
  std::shared_ptr<Entry> entry = EntryReader(file.yaml, node, library.types).load();
  entry->stem = file.stem;
  entry->external = file.input.external;
  entry->home = file.input.home;
  for (const Entry* other : library.overloads_of(entry->name())) {
    if (other->unique_name() != entry->unique_name()) continue;
    if (other->home.space != entry->home.space)
      throw Problem(entry->at,
                    fmt::format("'{}' is an op of '{}' already, at {}: formulas could not tell them apart; give this one "
                                "another name",
                                entry->unique_name(), other->home.space, other->at.to_string()));
    throw Problem(entry->at, fmt::format("'{}' stands twice; the first is at {}", entry->unique_name(), other->at.to_string()));
  }
  library.entries.push_back(std::move(entry));
}

}  // namespace

void load_entries(const std::vector<EntryInput>& inputs, Library& library, Problems& problems) {
  std::vector<EntryFile> files;
  for (const EntryInput& input : inputs) {
    attempt(problems, [&] {
      YamlFile yaml(input.path, input.name);
      if (yaml.root().is_null() && input.external) return;
      if (!yaml.root().is_list() || yaml.root().size() == 0)
        yaml.fail(yaml.root(), "an entry file is a list of '- func:' entries");
      const std::string stem = std::filesystem::path(input.path).stem().string();
      for (const EntryFile& other : files) {
        if (other.stem == stem && !other.input.external && !input.external)
          throw Problem({input.name, 1, 1},
                        fmt::format("what is made from the file would have the names of what is made from {}: "
                                    "call one of the two otherwise than '{}'",
                                    other.input.name, stem));
      }
      files.push_back({std::move(yaml), stem, input});
    });
  }
  for (const Item kind : {Item::enumeration, Item::record}) {
    for (const EntryFile& file : files)
      file.each(kind, problems, [&](const Tree& node) { load_type(file.yaml, node, file.input, file.stem, library); });
  }
  for (const EntryFile& file : files) file.each(Item::op, problems, [&](const Tree& node) { load_entry(file, node, library); });
}

}  // namespace opgen
