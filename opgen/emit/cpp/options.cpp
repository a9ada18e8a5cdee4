#include "opgen/emit/cpp/options.h"

#include <fmt/format.h>

#include "opgen/emit/cpp/types.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {

std::string options_name(const Op& op) { return pascal_case(op.unique_name()) + "Options"; }

std::string print_options(const Op& op) {
  if (!op.has_options()) return "";
  std::string fields;
  for (size_t i = op.positional(); i < op.schema.arguments.size(); ++i) {
    const Argument& argument = op.schema.arguments[i];
    fields += fmt::format("  {} {} = {};\n", owned_type(argument.type), argument.name, default_value(argument));
  }
  return fmt::format("/// What {} may be told by name.\nstruct {} {{\n{}}};\n\n", op.name(), options_name(op), fields);
}

std::vector<std::string> public_parameters(const Op& op, bool with_defaults) {
  if (!op.has_options()) return parameters(op, with_defaults);
  std::vector<std::string> parts = parameters(op, with_defaults);
  parts.resize(op.positional());
  parts.push_back("const " + options_name(op) + "& options" + (with_defaults ? " = {}" : ""));
  return parts;
}

std::string unpack_options(const Op& op) {
  if (!op.has_options()) return "";
  std::vector<std::string> names = op.argument_names();
  names.erase(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(op.positional()));
  return "const auto& [" + join(names) + "] = options;\n";
}

std::vector<std::string> public_arguments(const Op& op, const std::vector<std::string>& texts) {
  std::vector<std::string> parts, options;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (i < op.positional())
      parts.push_back(texts[i]);
    else if (!texts[i].empty())
      options.push_back(fmt::format(".{} = {}", op.schema.arguments[i].name, texts[i]));
  }
  if (!options.empty()) parts.push_back("{" + join(options) + "}");
  return parts;
}

std::vector<std::string> passed_on(const Op& op, std::vector<std::string> texts) {
  if (!op.has_options()) return texts;
  texts.resize(op.positional());
  texts.emplace_back("options");
  return texts;
}

}  // namespace opgen::cpp
