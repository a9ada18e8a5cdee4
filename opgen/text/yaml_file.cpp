#include "opgen/text/yaml_file.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "opgen/text/strings.h"

namespace opgen {
namespace {

/// PyTorch's native_functions.yaml has 0.7 million bytes.
constexpr size_t kMaxBytes = 2'000'000;

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

/// The nodes of a file as a tree, with everything that an *alias stands for written out: what ten lines of aliases of aliases may
/// grow to has no bound but this one.
class TreeMaker {
 public:
  explicit TreeMaker(const std::string& file) : file_(file) {}

  Tree make(const YAML::Node& node, int depth = 0) {
    const YAML::Mark mark = node.Mark();
    const Position at{file_, std::max(mark.line, 0) + 1, std::max(mark.column, 0) + 1};  // an empty file's is -1
    if (depth > kMaxDepth)
      throw Problem(at, fmt::format("the file is nested more than {} deep, or an alias stands within what it names", kMaxDepth));
    if (++values_ > kMaxValues)
      throw Problem(at, fmt::format("the file has more than {} values once every *alias is written out: leave the aliases out, "
                                    "or make two files of it",
                                    kMaxValues));
    std::vector<Branch> branches;
    if (node.IsSequence()) {
      for (const YAML::Node& element : node) branches.push_back({{}, make(element, depth + 1)});
      return Tree::of(Tree::Kind::sequence, "", std::move(branches), at);
    }
    if (node.IsMap()) {
      for (const auto& pair : node) {
        Tree key = make(pair.first, depth + 1);
        branches.push_back({std::move(key), make(pair.second, depth + 1)});
      }
      return Tree::of(Tree::Kind::map, "", std::move(branches), at);
    }
    if (node.IsScalar()) return Tree::of(Tree::Kind::scalar, node.Scalar(), {}, at);
    return Tree::of(Tree::Kind::null, "", {}, at);
  }

 private:
  static constexpr int kMaxDepth = 100;
  static constexpr int kMaxValues = 100000;  // the largest file of ops has some thousand

  const std::string& file_;
  int values_ = 0;
};

}  // namespace

YamlFile::YamlFile(const std::string& path, const std::string& name) : name_(name) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) throw Problem({name, 1, 1}, "this is a folder: name a file in it");
  std::ifstream file(path, std::ios::binary);
  if (!std::filesystem::is_regular_file(path, error) || !file) throw Problem({name, 1, 1}, "the file cannot be read");
  if (const auto size = std::filesystem::file_size(path); size > kMaxBytes)
    throw Problem({name, 1, 1},
                  fmt::format("the file has {} bytes, and {} are what is read: make several files of it", size, kMaxBytes));
  std::ostringstream contents;
  contents << file.rdbuf();
  std::istringstream stream(contents.str());
  for (std::string line; std::getline(stream, line);) lines_.push_back(line);
  try {
    root_ = TreeMaker(name).make(YAML::Load(contents.str()));
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

Text YamlFile::text(const Tree& node, const std::string& field) const {
  if (!node.is_scalar()) fail(node, fmt::format("'{}' wants one text", field));
  return Text(node.scalar(), name_, lines_, node.at().line - 1, node.at().column - 1);
}

std::string YamlFile::sentence(const Tree& node, const std::string& field) const {
  const std::string value = text(node, field).value();
  const size_t end = value.find_last_not_of(" \n");
  const std::string kept = value.substr(0, end == std::string::npos ? 0 : end + 1);
  if (kept.find_first_of("\n\r") != std::string::npos)
    fail(node, fmt::format("'{0}' has several lines: write '{0}: >', which makes them one", field));
  if (kept.ends_with('\\')) fail(node, fmt::format("'{}' may not end in a backslash, which joins lines of C++", field));
  return value;
}

bool YamlFile::boolean(const Tree& node, const std::string& field) const {
  if (!node.is_scalar() || (node.scalar() != "true" && node.scalar() != "false"))
    fail(node, fmt::format("'{}' is true or false", field));
  return node.scalar() == "true";
}

void YamlFile::fail(const Tree& node, const std::string& message) const { node.fail(message); }

void YamlFile::check_keys(const Tree& map, const std::string& what, const std::vector<std::string>& known) const {
  if (!map.is_map()) fail(map, fmt::format("{} wants 'key: value' pairs", what));
  std::set<std::string> seen;
  for (const Branch& pair : map.branches()) {
    const std::string key = pair.key.scalar();
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      const std::string nearest_key = did_you_mean(key, known);
      fail(pair.key,
           fmt::format("{} has no field '{}'{}", what, key, nearest_key.empty() ? " (it has " + join(known) + ")" : nearest_key));
    }
    if (!seen.insert(key).second) fail(pair.key, fmt::format("the field '{}' stands twice", key));
  }
}

}  // namespace opgen
