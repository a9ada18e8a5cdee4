#include "opgen/emit/cpp/declared.h"

#include <fmt/format.h>

#include <set>

#include "opgen/emit/common/layout.h"
#include "opgen/emit/cpp/records.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

std::string print_enum(const EnumType& type) {
  std::vector<std::string> names;
  for (const std::string& value : type.values) names.push_back(quote(value));
  return fmt::format(
      "/// {0}\nenum class {1} {{ {2} }};\n\n"
      "inline constexpr std::string_view k{1}Names[] = {{{3}}};\n"
      "/// What messages call its values, in their order.\n"
      "constexpr std::span<const std::string_view> names_of({1}) {{ return k{1}Names; }}\n"
      "/// \"?\" where there is no such value.\n"
      "constexpr std::string_view to_string({1} value) {{\n"
      "  return static_cast<size_t>(value) < std::size(k{1}Names) ? k{1}Names[static_cast<size_t>(value)] : \"?\";\n}}\n\n",
      type.doc, type.name, join(type.values), join(names));
}

/// Headers of the enums that are fields, but for those of `own`.
std::string includes_of(const std::vector<const RecordType*>& records, const std::string& own) {
  std::set<std::string> headers;
  for (const RecordType* record : records) {
    for (const Argument& field : record->fields) {
      if (field.type.base == Base::enumeration)
        headers.insert(types_header_path(field.type.enumeration->home, field.type.enumeration->stem));
    }
  }
  headers.erase(own);
  std::string lines;
  for (const std::string& header : headers) lines += fmt::format("#include \"{}\"\n", header);
  return lines;
}

}  // namespace

std::string types_header(const Stem& stem) {
  if (stem.enums.empty() && stem.records.empty()) return "";
  std::string text = "#pragma once\n\n" + file_head(stem) +
                     "#include <cstddef>\n#include <iterator>\n#include <optional>\n#include <span>\n#include <string_view>\n";
  if (!stem.records.empty())
    text += "\n#include \"deckle/kernels/args/view.h\"\n" + includes_of(stem.records, types_header_path(stem.home, stem.name));
  text += "\nnamespace " + stem.home.space + " {\n\n";
  for (const EnumType* type : stem.enums) text += print_enum(*type);
  for (const RecordType* record : stem.records) text += with_deckle_names(stem.home, print_view_record(*record));
  return text + "}  // namespace " + stem.home.space + "\n";
}

std::string type_includes(const Stem& stem, bool kernels) {
  std::set<std::string> types, records;
  if (!stem.enums.empty() || !stem.records.empty()) types.insert(types_header_path(stem.home, stem.name));
  for (const Op* op : stem.ops) {
    for (const auto& parameters : {op->schema.parameters(), op->schema.outcomes()}) {
      for (const Parameter& parameter : parameters) {
        const Type& type = parameter.type;
        if (type.base == Base::enumeration) types.insert(types_header_path(type.enumeration->home, type.enumeration->stem));
        if (parameter.is_record() && kernels) types.insert(types_header_path(type.record->home, type.record->stem));
        if (parameter.is_record() && !kernels) records.insert(ops_header(type.record->home, type.record->stem));
      }
    }
  }
  records.erase(ops_header(stem.home, stem.name));
  std::string lines;
  for (const std::string& header : types) lines += fmt::format("#include \"{}\"\n", header);
  for (const std::string& header : records) lines += fmt::format("#include \"{}\"\n", header);
  return lines;
}

}  // namespace opgen::cpp
