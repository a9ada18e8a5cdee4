#pragma once

#include <string>
#include <vector>

#include "opgen/text/tree.h"

namespace opgen {

/// A YAML file as a tree with positions; the only one that sees the YAML package is yaml_file.cpp.
class YamlFile {
 public:
  YamlFile(const std::string& path, const std::string& name);

  const Tree& root() const { return root_; }
  const std::string& name() const { return name_; }
  /// A scalar's text; throws Problem naming `field` if the node is none.
  Text text(const Tree& node, const std::string& field) const;
  /// A text that becomes a comment of generated code; throws Problem if it has several lines or would swallow the next one.
  std::string sentence(const Tree& node, const std::string& field) const;
  /// true or false; throws Problem naming `field` at anything else.
  bool boolean(const Tree& node, const std::string& field) const;
  [[noreturn]] void fail(const Tree& node, const std::string& message) const;
  /// Throws at the first key of a map that is not in `known`, with the nearest one.
  void check_keys(const Tree& map, const std::string& what, const std::vector<std::string>& known) const;

 private:
  FileName name_;
  std::vector<std::string> lines_;
  Tree root_;
};

}  // namespace opgen
