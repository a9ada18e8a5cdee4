#include "opgen/emit/cpp/declared.h"

#include <fmt/format.h>

#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

std::string print_enum(const EnumType& type) {
  std::vector<std::string> names;
  for (const std::string& value : type.values) names.push_back(quoted(value));
  std::string text = fmt::format("/// {}\nenum class {} {{ {} }};\n\n", type.doc, type.name, join(type.values));
  return text + fmt::format(
                    "/// As messages write it: {}.\nconstexpr std::string_view to_string({} value) {{\n"
                    "  constexpr std::string_view names[] = {{{}}};\n  return names[static_cast<size_t>(value)];\n}}\n\n",
                    type.values[0], type.name, join(names));
}

}  // namespace

std::string types_path(const std::string& stem) { return "deckle/kernels/args/generated/" + stem + ".h"; }

std::string types_header(const Stem& stem) {
  if (stem.enums.empty()) return "";
  std::string text =
      "#pragma once\n\n" + file_head(stem) + "#include <cstddef>\n#include <string_view>\n\nnamespace deckle {\n\n";
  for (const EnumType* type : stem.enums) text += print_enum(*type);
  return text + "}  // namespace deckle\n";
}

std::string type_includes(const Stem& stem) {
  std::set<std::string> stems;
  if (!stem.enums.empty()) stems.insert(stem.name);
  for (const Op* op : stem.ops) {
    for (const Argument& argument : op->schema.arguments) {
      if (argument.type.base == Base::enumeration) stems.insert(argument.type.enumeration->stem);
    }
  }
  std::string lines;
  for (const std::string& declaring : stems) lines += fmt::format("#include \"{}\"\n", types_path(declaring));
  return lines;
}

}  // namespace opgen::cpp
