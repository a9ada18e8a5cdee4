#include "opgen/emit/cpp/declared.h"

#include <fmt/format.h>

#include <functional>

#include "opgen/emit/cpp/records.h"
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

/// Headers of the enums that are fields, but for those of `own`.
std::string includes_of(const std::vector<const RecordType*>& records, const std::string& own,
                        const std::function<std::string(const std::string&)>& path) {
  std::set<std::string> stems;
  for (const RecordType* record : records) {
    for (const Argument& field : record->fields) {
      if (field.type.base == Base::enumeration) stems.insert(field.type.enumeration->stem);
    }
  }
  stems.erase(own);
  std::string lines;
  for (const std::string& stem : stems) lines += fmt::format("#include \"{}\"\n", path(stem));
  return lines;
}

}  // namespace

std::string types_path(const std::string& stem) { return "deckle/kernels/args/generated/" + stem + ".h"; }

std::string types_header(const Stem& stem) {
  if (stem.enums.empty() && stem.records.empty()) return "";
  std::string text = "#pragma once\n\n" + file_head(stem) + "#include <cstddef>\n#include <optional>\n#include <string_view>\n";
  if (!stem.records.empty())
    text += "\n#include \"deckle/kernels/args/view.h\"\n" + includes_of(stem.records, stem.name, types_path);
  text += "\nnamespace deckle {\n\n";
  for (const EnumType* type : stem.enums) text += print_enum(*type);
  for (const RecordType* record : stem.records) text += print_view_record(*record);
  return text + "}  // namespace deckle\n";
}

std::string type_includes(const Stem& stem, bool kernels) {
  std::set<std::string> types, records;
  if (!stem.enums.empty() || !stem.records.empty()) types.insert(stem.name);
  for (const Op* op : stem.ops) {
    for (const auto& parameters : {op->schema.parameters(), op->schema.outcomes()}) {
      for (const Parameter& parameter : parameters) {
        if (parameter.type.base == Base::enumeration) types.insert(parameter.type.enumeration->stem);
        if (parameter.is_record()) (kernels ? types : records).insert(parameter.type.record->stem);
      }
    }
  }
  records.erase(stem.name);
  std::string lines;
  for (const std::string& declaring : types) lines += fmt::format("#include \"{}\"\n", types_path(declaring));
  for (const std::string& declaring : records) lines += fmt::format("#include \"deckle/ops/generated/{}.h\"\n", declaring);
  return lines;
}

}  // namespace opgen::cpp
