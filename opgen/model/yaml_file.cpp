#include "opgen/model/yaml_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "opgen/text.h"

namespace opgen {

YamlFile::YamlFile(const std::string& path, const std::string& name) : name_(name) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Problem({name, 1, 1}, "the file cannot be read");
  std::ostringstream contents;
  contents << file.rdbuf();
  std::istringstream stream(contents.str());
  for (std::string line; std::getline(stream, line);) lines_.push_back(line);
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(contents.str());
    root_.reset(documents.empty() ? YAML::Node() : documents[0]);
    if (documents.size() > 1) fail(documents[1], "a file holds one YAML document: leave the '---' out");
  } catch (const YAML::Exception& error) {
    throw Problem({name, error.mark.line + 1, error.mark.column + 1}, "not valid YAML: " + error.msg);
  }
}

Position YamlFile::at(const YAML::Node& node) const {
  const YAML::Mark mark = node.Mark();
  return {name_, mark.line + 1, mark.column + 1};
}

Text YamlFile::text(const YAML::Node& node, const std::string& field) const {
  if (!node.IsScalar()) fail(node, fmt::format("'{}' wants one text", field));
  const YAML::Mark mark = node.Mark();
  return Text(node.Scalar(), name_, lines_, mark.line, mark.column);
}

bool YamlFile::boolean(const YAML::Node& node, const std::string& field) const {
  if (!node.IsScalar() || (node.Scalar() != "true" && node.Scalar() != "false")) fail(node, fmt::format("'{}' is true or false", field));
  return node.Scalar() == "true";
}

void YamlFile::fail(const YAML::Node& node, const std::string& message) const { throw Problem(at(node), message); }

void YamlFile::check_keys(const YAML::Node& map, const std::string& what, const std::vector<std::string>& known) const {
  if (!map.IsMap()) fail(map, fmt::format("{} wants 'key: value' pairs", what));
  std::set<std::string> seen;
  for (const auto& pair : map) {
    const std::string key = pair.first.Scalar();
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      const std::string nearest_key = did_you_mean(key, known);
      fail(pair.first, fmt::format("{} has no field '{}'{}", what, key, nearest_key.empty() ? " (it has " + join(known) + ")" : nearest_key));
    }
    if (!seen.insert(key).second) fail(pair.first, fmt::format("the field '{}' stands twice", key));
  }
}

}  // namespace opgen
