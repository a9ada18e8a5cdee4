#include "opgen/text/yaml_file.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "opgen/text/strings.h"

namespace opgen {
namespace {

/// PyTorch's native_functions.yaml has 0.7 million bytes.
constexpr size_t kMaxBytes = 2'000'000;

/// The first document of a file as a tree, made while it is read: YAML::Load drops all others without a word, and YAML::LoadAll
/// hangs on some broken files. Aliases share what they stand for, and count as if it were written out: what ten lines of aliases
/// of aliases may grow to has no other bound.
class TreeMaker : public YAML::EventHandler {
 public:
  explicit TreeMaker(const FileName& file) : file_(file) {}

  const Tree& root() const { return root_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (root_)
      throw Problem(position(mark), "a second YAML document begins here: leave out what separates it, '---' or a stray ','");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { leaf(Tree::Kind::null, "", mark, anchor); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, const std::string& value) override {
    leaf(Tree::Kind::scalar, value, mark, anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto named = named_.find(anchor);
    if (named == named_.end()) throw Problem(position(mark), "an alias stands within what it names: write out what is meant");
    count(named->second.values, named->second.levels, position(mark));
    add(named->second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(Tree::Kind::sequence, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(Tree::Kind::map, mark, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  static constexpr size_t kMaxDepth = 100;
  static constexpr int kMaxValues = 100000;  // the largest file of ops has some thousand

  /// A tree, how many values it has, and on how many levels below itself.
  struct Made {
    Tree tree;
    int values = 1;
    size_t levels = 0;
  };
  /// A list or a map whose end was not read yet.
  struct Open {
    Tree::Kind kind;
    Position at;
    YAML::anchor_t anchor;
    int before;  // values that stand before it
    size_t levels = 0;
    std::vector<Branch> branches = {};
    Tree key = {};  // of the pair whose value comes next
  };

  Position position(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }

  void count(int values, size_t levels, const Position& at) {
    if (open_.size() + levels > kMaxDepth) throw Problem(at, fmt::format("the file is nested more than {} deep", kMaxDepth));
    values_ += values;
    if (values_ > kMaxValues)
      throw Problem(at, fmt::format("the file has more than {} values once every *alias is written out: leave the aliases out, "
                                    "or make two files of it",
                                    kMaxValues));
  }

  void leaf(Tree::Kind kind, const std::string& text, const YAML::Mark& mark, YAML::anchor_t anchor) {
    count(1, 0, position(mark));
    add({Tree::of(kind, text, {}, position(mark))}, anchor);
  }
  void open(Tree::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    count(1, 0, position(mark));
    open_.push_back({kind, position(mark), anchor, values_ - 1});
  }
  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    add({Tree::of(done.kind, "", std::move(done.branches), done.at), values_ - done.before, done.levels}, done.anchor);
  }
  void add(const Made& made, YAML::anchor_t anchor = YAML::NullAnchor) {
    if (anchor != YAML::NullAnchor) named_[anchor] = made;
    if (open_.empty()) {
      root_ = made.tree;
      return;
    }
    Open& parent = open_.back();
    parent.levels = std::max(parent.levels, made.levels + 1);
    if (parent.kind == Tree::Kind::map && !parent.key)
      parent.key = made.tree;
    else
      parent.branches.push_back({std::exchange(parent.key, {}), made.tree});
  }

  const FileName file_;
  Tree root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Made> named_;
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
  for (std::string line; std::getline(file, line);) lines_.push_back(line);
  file.clear();
  file.seekg(0);
  TreeMaker maker(name);
  try {
    YAML::Parser parser(file);
    const bool some = parser.HandleNextDocument(maker);
    root_ = some ? maker.root() : Tree::of(Tree::Kind::null, "", {}, {name, 1, 1});
    if (some) parser.HandleNextDocument(maker);
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
