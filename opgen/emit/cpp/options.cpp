#include "opgen/emit/cpp/options.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/emit/cpp/signature.h"
#include "opgen/emit/cpp/types.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

/// How many parameters stand before the options.
size_t parameters_before(const Op& op) {
  size_t count = 0;
  for (const Parameter& parameter : op.schema.parameters()) count += parameter.first < op.positional();
  return count;
}

/// Whether {1} might be meant as the argument before the options, a list that may be left out.
bool beside_a_list(const Op& op) {
  if (op.positional() == 0) return false;
  const Argument& last = op.schema.arguments[op.positional() - 1];
  return last.default_value && last.type.is_list_of(Base::integer);
}

}  // namespace

std::string name_of(const std::string& parameter) {
  const std::string before = parameter.substr(0, parameter.find(" = "));
  return before.substr(before.find_last_of(" &*") + 1);
}

std::string options_name(const Op& op) { return pascal_case(op.unique_name()) + "Options"; }

std::string print_options(const Op& op) {
  if (!op.has_options()) return "";
  std::string fields = beside_a_list(op) ? "  ByName by_name = {};\n" : "";
  for (size_t i = op.positional(); i < op.schema.arguments.size(); ++i) {
    const Argument& argument = op.schema.arguments[i];
    fields += fmt::format("  {} {} = {};\n", owned_type(argument.type), argument.name, default_value(argument));
  }
  return fmt::format("/// What {} may be told by name.\nstruct {} {{\n{}}};\n\n", op.name(), options_name(op), fields);
}

std::vector<std::string> public_parameters(const Op& op, bool with_defaults) {
  if (!op.has_options()) return parameters(op, with_defaults, public_type);
  std::vector<std::string> parts = parameters(op, with_defaults, public_type);
  parts.resize(parameters_before(op));
  parts.push_back("const " + options_name(op) + "& options" + (with_defaults ? " = {}" : ""));
  return parts;
}

size_t required_before_options(const std::vector<std::string>& parameters) {
  size_t count = parameters.size() - 1;
  while (count > 0 && parameters[count - 1].find(" = ") != std::string::npos) --count;
  return count;
}

std::string options_alone(const Op& op, const std::string& result, const std::string& name,
                          const std::vector<std::string>& parameters) {
  if (!op.has_options()) return "";
  const size_t required = required_before_options(parameters);
  if (required + 1 == parameters.size()) return "";
  std::vector<std::string> declared, passed;
  for (size_t i = 0; i + 1 < parameters.size(); ++i) {
    const std::string& parameter = parameters[i];
    if (i < required) declared.push_back(parameter);
    passed.push_back(i < required ? name_of(parameter) : parameter.substr(parameter.find(" = ") + 3));
  }
  declared.push_back("const " + options_name(op) + "& options");
  passed.emplace_back("options");
  return one_line_or_block(wrap("inline " + result + " " + name, declared, ""), wrap("return " + name, passed, ";"));
}

std::string unpack_options(const Op& op) {
  if (!op.has_options()) return "";
  std::vector<std::string> names;
  if (beside_a_list(op)) names.emplace_back("by_name");
  for (size_t i = op.positional(); i < op.schema.arguments.size(); ++i) names.push_back(op.schema.arguments[i].name);
  return "const auto& [" + join(names) + "] = options;\n";
}

std::vector<std::string> public_arguments(const Op& op, const std::vector<std::string>& texts) {
  const std::vector<Parameter> parameters = op.schema.parameters();
  std::vector<std::string> parts, options;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (parameters[i].first < op.positional())
      parts.push_back(texts[i]);
    else if (!texts[i].empty())
      options.push_back(fmt::format(".{} = {}", parameters[i].name, texts[i]));
  }
  if (!options.empty()) parts.push_back("{" + join(options) + "}");
  return parts;
}

std::vector<std::string> passed_on(const Op& op, const std::vector<std::string>& texts) {
  std::vector<std::string> parts;
  for (const Parameter& parameter : op.schema.parameters()) {
    if (parameter.first < op.positional()) parts.push_back(parameter.is_record() ? parameter.name : texts[parameter.first]);
  }
  if (op.has_options()) parts.emplace_back("options");
  return parts;
}

}  // namespace opgen::cpp
