#include "opgen/model/yaml_file.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "opgen/text.h"

namespace opgen {
namespace {

/// Where the last document began. YAML::Load drops all but the first without a word, and YAML::LoadAll hangs on some broken
/// files.
struct DocumentStart : YAML::EventHandler {
  YAML::Mark mark;

  void OnDocumentStart(const YAML::Mark& at) override { mark = at; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

}  // namespace

YamlFile::YamlFile(const std::string& path, const std::string& name) : name_(name) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Problem({name, 1, 1}, "the file cannot be read");
  std::ostringstream contents;
  contents << file.rdbuf();
  std::istringstream stream(contents.str());
  for (std::string line; std::getline(stream, line);) lines_.push_back(line);
  try {
    root_ = YAML::Load(contents.str());
    stream.clear();
    stream.seekg(0);
    DocumentStart start;
    YAML::Parser parser(stream);
    if (parser.HandleNextDocument(start) && parser.HandleNextDocument(start))
      throw Problem({name, start.mark.line + 1, start.mark.column + 1},
                    "a second YAML document begins here: leave out what separates it, '---' or a stray ','");
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
  if (!node.IsScalar() || (node.Scalar() != "true" && node.Scalar() != "false"))
    fail(node, fmt::format("'{}' is true or false", field));
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
      fail(pair.first,
           fmt::format("{} has no field '{}'{}", what, key, nearest_key.empty() ? " (it has " + join(known) + ")" : nearest_key));
    }
    if (!seen.insert(key).second) fail(pair.first, fmt::format("the field '{}' stands twice", key));
  }
}

}  // namespace opgen
