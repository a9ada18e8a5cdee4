#pragma once

#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

#include "opgen/source.h"

namespace opgen {

/// A YAML file with the positions of its nodes.
class YamlFile {
 public:
  YamlFile(const std::string& path, const std::string& name);

  const YAML::Node& root() const { return root_; }
  const std::string& name() const { return name_; }
  Position at(const YAML::Node& node) const;
  /// A scalar's text; throws Problem naming `field` if the node is none.
  Text text(const YAML::Node& node, const std::string& field) const;
  /// true or false; throws Problem naming `field` at anything else.
  bool boolean(const YAML::Node& node, const std::string& field) const;
  [[noreturn]] void fail(const YAML::Node& node, const std::string& message) const;
  /// Throws at the first key of a map that is not in `known`, with the nearest one.
  void check_keys(const YAML::Node& map, const std::string& what, const std::vector<std::string>& known) const;

 private:
  std::string name_;
  std::vector<std::string> lines_;
  YAML::Node root_;
};

}  // namespace opgen
