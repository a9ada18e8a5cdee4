#include "opgen/readers/libraries/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include "opgen/schema/identifiers.h"
#include "opgen/text/strings.h"
#include "opgen/text/yaml_file.h"

namespace opgen {
namespace {

namespace fs = std::filesystem;

/// Namespaces of others that generated code names: within acme::std it would look for std::vector there.
constexpr std::array<std::string_view, 4> kTaken = {"deckle", "std", "hwy", "fmt"};

/// Letters of a namespace; a file name has 255 at most.
constexpr size_t kLongest = 200;

/// 0.1 of 0.1.3: what is made for it fits all its patches.
std::string minor_version(const std::string& version) {
  const size_t first = version.find('.');
  return first == std::string::npos ? version : version.substr(0, version.find('.', first + 1));
}

class LibraryLoader {
 public:
  LibraryLoader(const std::vector<std::string>& include, const std::string& compiled, const std::string& version)
      : include_(include), compiled_(compiled), version_(version) {}

  /// `from` names the file, and what is wrong with that is said there; files of the command line come from nowhere.
  void load(const std::string& name, const Tree* from) {
    const std::string path = found(name, from);
    std::error_code cannot_be;
    const std::string known = fs::weakly_canonical(path, cannot_be).generic_string();
    if (std::find(done_.begin(), done_.end(), known) != done_.end()) return;
    const YamlFile file(path, path);
    const Tree& root = file.root();
    if (!root.is_map()) file.fail(root, "a library file has 'library:', 'namespace:', 'deckle:' and 'entries:'");
    if (root["deckle"]) check_version(file, root);  // another one's fields may be others
    file.check_keys(root, "a library file", {"library", "namespace", "deckle", "entries", "functions", "uses"});
    for (const char* key : {"library", "namespace", "entries", "deckle"}) {  // the last of them ends the file
      if (!root[key])
        file.fail(root, fmt::format("a library file has '{}:', and this one ends before it: build the library again", key));
    }
    OpLibrary library;
    library.file = path;
    library.name = file.text(root["library"], "library").value();
    if (library.name.empty() || library.name == "deckle")
      file.fail(root["library"],
                fmt::format("'{}' is no name of a library beside Deckle: build the library again", library.name));
    library.home = {file.text(root["namespace"], "namespace").value(), false};
    if (const std::string why = why_not_a_namespace(library.home.space); !why.empty()) file.fail(root["namespace"], why);
    chain_.push_back(library.name);
    if (library.name == compiled_ || std::count(chain_.begin(), chain_.end(), library.name) > 1)
      cycle(from ? *from : root, library);
    library.entries = paths(file, root["entries"], path);
    if (root["functions"]) library.functions = paths(file, root["functions"], path);
    if (root["uses"]) {
      if (!root["uses"].is_list()) file.fail(root["uses"], "'uses' is a list of library files");
      for (const Branch& used : root["uses"].branches()) load(file.text(used.value, "uses").value(), &used.value);
    }
    chain_.pop_back();
    for (const OpLibrary& other : libraries) {
      if (other.name == library.name)
        file.fail(root["library"],
                  fmt::format("the library '{}' stands in two files, here and in {}: leave one out", library.name, other.file));
      if (other.home.space == library.home.space)
        file.fail(root["namespace"], fmt::format("the libraries '{}' and '{}' have one namespace, '{}': give one of them another",
                                                 other.name, library.name, other.home.space));
    }
    done_.push_back(known);
    libraries.push_back(std::move(library));
  }

  std::vector<OpLibrary> libraries;

 private:
  std::string found(const std::string& name, const Tree* from) const {
    for (const std::string& folder : include_) {
      const std::string path = (fs::path(folder) / name).generic_string();
      if (exists(path)) return path;
    }
    if (from == nullptr) return name;  // which reading then reports
    from->fail(
        fmt::format("the file '{}' is in none of the include folders: find_package() the library that it belongs to", name));
  }

  static bool exists(const std::string& path) {
    std::error_code too_long;
    return fs::exists(path, too_long);
  }

  static std::string resolve_path(const std::string& path, const std::string& beside) {
    return (fs::path(beside).parent_path() / path).lexically_normal().generic_string();
  }

  static std::vector<std::string> paths(const YamlFile& file, const Tree& list, const std::string& beside) {
    if (!list.is_list()) file.fail(list, "a list of files is wanted: [ops.yaml]");
    std::vector<std::string> found;
    for (const Branch& element : list.branches()) {
      found.push_back(resolve_path(file.text(element.value, "entries").value(), beside));
      if (!exists(found.back()))
        element.value.fail(fmt::format("the file {} does not exist: install the library again", found.back()));
    }
    return found;
  }

  void check_version(const YamlFile& file, const Tree& root) const {
    const std::string made_for = file.text(root["deckle"], "deckle").value();
    const std::string name = root["library"] ? root["library"].scalar() : "";
    if (minor_version(made_for) != minor_version(version_))
      file.fail(root["deckle"], fmt::format("'{}' is made for Deckle {}, and this is {}: build and install '{}' with this Deckle",
                                            name, made_for, version_, name));
  }

  [[noreturn]] void cycle(const Tree& at, const OpLibrary& library) const {
    std::vector<std::string> names(std::find(chain_.begin(), chain_.end(), library.name), chain_.end());
    if (library.name == compiled_) {
      names = chain_;
      names.insert(names.begin(), compiled_);
    }
    at.fail(fmt::format("libraries cannot use each other: {}; move the ops that both need into one of their own",
                        join(names, " uses ")));
  }

  const std::vector<std::string>& include_;
  const std::string& compiled_;
  const std::string& version_;
  std::vector<std::string> chain_;  // from the one that is compiled to the one that is read
  std::vector<std::string> done_;
};

}  // namespace

std::string why_not_a_namespace(const std::string& space) {
  if (space.size() > kLongest)
    return fmt::format("a namespace of {} letters is too long, as files are named after it: {} are allowed", space.size(),
                       kLongest);
  if (space == "deckle" || space.rfind("deckle::", 0) == 0)
    return fmt::format("'{}' is Deckle's own namespace: give the library one of its own", space);
  for (size_t begin = 0; begin <= space.size();) {
    const size_t end = std::min(space.find("::", begin), space.size());
    const std::string part = space.substr(begin, end - begin);
    const bool letters = std::all_of(part.begin(), part.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
    if (part.empty() || !letters || (part[0] >= '0' && part[0] <= '9'))
      return fmt::format("'{}' is no namespace: write names with '::' between them, as in acme::ops", space);
    if (std::find(kTaken.begin(), kTaken.end(), part) != kTaken.end())
      return fmt::format("the namespace '{}' cannot be: '{}' is a namespace that the generated code uses: choose another name",
                         space, part);
    if (part[0] == '_' || part.find("__") != std::string::npos)
      return fmt::format("the namespace '{}' cannot be: names with '__', or '_' in front, are the compiler's", space);
    if (is_macro(part) || (part[0] >= 'a' && part[0] <= 'z')) {
      if (const std::string why = why_not_an_op(part); !why.empty())
        return fmt::format("the namespace '{}' cannot be: {}", space, why);
    }
    begin = end + 2;
  }
  return "";
}

std::vector<OpLibrary> load_libraries(const std::vector<std::string>& files, const std::vector<std::string>& include,
                                      const std::string& compiled, const std::string& version, Problems& problems) {
  LibraryLoader loader(include, compiled, version);
  for (const std::string& file : files) {
    try {
      loader.load(file, nullptr);
    } catch (const Problem& problem) {
      problems.emplace_back(problem.what());
      return {};
    }
  }
  return loader.libraries;
}

}  // namespace opgen
