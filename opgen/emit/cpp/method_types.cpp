#include "opgen/emit/cpp/method_types.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "opgen/emit/cpp/types.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

bool has_names(const Op& op) {
  return op.method && op.home.plain && op.schema.results.size() > 1 && op.schema.result_groups.empty();
}

std::vector<std::string> names_of(const Op& op) {
  std::vector<std::string> names;
  for (size_t i = 0; i < op.schema.results.size(); ++i) names.push_back(op.result_name(i));
  return names;
}

/// `ValuesIndices`.
std::string struct_name(const std::vector<std::string>& names) { return pascal_case(join(names, "_")); }

std::string print_struct(const std::vector<std::string>& names) {
  std::vector<std::string> types, parameters, given;
  std::string members;
  for (size_t i = 0; i < names.size(); ++i) {
    types.push_back("T");
    parameters.push_back("const T& " + names[i] + "_");
    given.push_back(names[i] + "_");
    members += fmt::format(", {}(std::get<{}>(parts))", names[i], i);
  }
  const std::string head = fmt::format(
      "/// Results with names, and a tuple: `x.{0}`, `auto [{1}] = x`, `std::get<0>(x)`.\n"
      "template <typename T>\nstruct {2} : std::tuple<{3}> {{\n  using Tuple = std::tuple<{3}>;\n",
      names[0], join(names), struct_name(names), join(types));
  return head + fmt::format(
                    "  {0}({1}) : {0}(Tuple({2})) {{}}\n  {0}(const Tuple& parts) : Tuple(parts){3} {{}}\n\n  T {4};\n\n"
                    "  // What bindings read: the members, which may have been assigned to.\n"
                    "  template <size_t I>\n  T& get() & {{\n    return *std::array{{&{5}}}[I];\n  }}\n"
                    "  template <size_t I>\n  const T& get() const& {{\n    return *std::array{{&{5}}}[I];\n  }}\n"
                    "  template <size_t I>\n  T&& get() && {{\n    return std::move(*std::array{{&{5}}}[I]);\n  }}\n}};\n\n",
                    struct_name(names), join(parameters), join(given), members, join(names), join(names, ", &"));
}

std::string print_protocol(const std::vector<std::string>& names) {
  return fmt::format(
      "template <typename T>\nstruct std::tuple_size<deckle::{0}<T>> : std::tuple_size<typename deckle::{0}<T>::Tuple> {{}};\n"
      "template <size_t I, typename T>\nstruct std::tuple_element<I, deckle::{0}<T>> {{\n  using type = T;\n}};\n",
      struct_name(names));
}

}  // namespace

std::string public_return_type(const Op& op) {
  if (has_names(op)) return struct_name(names_of(op)) + "<Tensor>";
  const std::string result = return_type(op);
  return result == "const Tensor&" ? "Tensor" : result;  // what is written may be a temporary, which a reference would outlive
}

void emit_method_types(const Program& program, Files& files) {
  std::map<std::string, std::vector<std::string>> all;
  std::set<std::string> enumerations;
  for (const Stem& stem : stems_of(program, {})) {
    for (const Op* op : stem.ops) {
      if (has_names(*op)) all[struct_name(names_of(*op))] = names_of(*op);
      if (!op->method) continue;
      for (const Argument& argument : op->schema.arguments) {
        if (argument.type.is(Base::enumeration)) enumerations.insert(argument.type.enumeration->cpp());
      }
    }
  }
  std::string enums, structs, protocols;
  for (const std::string& name : enumerations) enums += fmt::format("enum class {};\n", name);
  for (const auto& [name, names] : all) {
    structs += print_struct(names);
    protocols += print_protocol(names);
  }
  const std::string text = fmt::format(
      "#pragma once\n\n// Generated from the entries with `variants: [method]`; change the entries, not this file.\n"
      "#include <array>\n#include <tuple>\n#include <utility>\n\nnamespace deckle {{\n\n{}{}{}}}  // namespace deckle\n\n{}",
      enums, enums.empty() ? "" : "\n", structs, protocols);
  files.add("deckle/core/generated/method_types.h", text, "the methods of Tensor");
}

}  // namespace opgen::cpp
