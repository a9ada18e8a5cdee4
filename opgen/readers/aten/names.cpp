#include "opgen/readers/aten/names.h"

#include <set>

namespace opgen::aten {

const std::map<std::string, std::string>& cpp_constants() {
  static const std::map<std::string, std::string> names = {
      {"M_PI", "pi"}, {"INFINITY", "inf"}, {"NAN", "nan"}, {"nullopt", "none"}, {"nullptr", "none"}};
  return names;
}

bool is_holder(const std::string& name) {
  static const std::set<std::string> names = {"optional", "OptionalArrayRef", "ArrayRef",       "IntArrayRef", "SymIntArrayRef",
                                              "array",    "TensorList",       "ITensorListRef", "SymInt",      "vector"};
  return names.count(name) > 0;
}

bool is_template(const std::string& name) {
  return is_holder(name) || name == "get" || name == "tuple" || name == "static_cast" || name == "numeric_limits";
}

std::string one_word(std::string name) {
  for (size_t colon = name.find("::"); colon != std::string::npos; colon = name.find("::")) name.replace(colon, 2, "_");
  return name;
}

std::string without_namespaces(const std::string& name) {
  static const std::set<std::string> namespaces = {"", "at", "c10", "std", "torch", "native"};
  std::string rest = name;
  for (size_t colon = rest.find("::"); colon != std::string::npos; colon = rest.find("::")) {
    if (namespaces.count(rest.substr(0, colon)) == 0) break;
    rest.erase(0, colon + 2);
  }
  return rest;
}

std::string without_symint(const std::string& name) {
  static constexpr std::string_view kSuffix = "_symint";
  const bool has = name.size() > kSuffix.size() && name.compare(name.size() - kSuffix.size(), kSuffix.size(), kSuffix) == 0;
  return has ? name.substr(0, name.size() - kSuffix.size()) : name;
}

}  // namespace opgen::aten
