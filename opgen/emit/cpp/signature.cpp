#include "opgen/emit/cpp/signature.h"

#include <fmt/format.h>

#include "opgen/emit/cpp/method_types.h"
#include "opgen/emit/cpp/options.h"
#include "opgen/emit/cpp/records.h"
#include "opgen/emit/cpp/types.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {

std::string naming_itself(const Op& op, Variant variant, const std::string& head, const std::string& body) {
  std::vector<std::string> operands;
  if (variant == Variant::out) operands.emplace_back("{\"out\", out}");
  for (const Argument* tensor : op.tensors())
    operands.push_back(fmt::format("{{{}, {}}}", quote(tensor->label()), tensor->label()));
  std::vector<std::string> arguments = {quote(variant_name(op, variant))};
  if (!operands.empty()) {
    operands.front().insert(0, "{");
    operands.back() += "}";
    arguments.insert(arguments.end(), operands.begin(), operands.end());
  }
  return head + " try {\n" + indent(body, 2) + "} catch (...) {\n" + indent(wrap("rethrow_from", arguments, ";") + "\n", 2) +
         "}\n\n";
}

std::string common_device(const Op& op) {
  std::vector<std::string> tensors, lists;
  for (const Argument& argument : op.schema.arguments) {
    if (argument.type.is_tensor())
      tensors.push_back(argument.name);
    else if (argument.type.is_tensor_like())
      lists.push_back(argument.name);
  }
  if (!tensors.empty()) lists.insert(lists.begin(), "{" + join(tensors) + "}");
  return lists.empty() ? "" : "dispatch::common_device(" + join(lists) + ")";
}

std::string factories_there(const Op& op) {
  const std::string device = common_device(op);
  return device.empty() ? "" : "const launch::OnDevice there(" + device + ");\n";
}

std::string one_line_or_block(const std::string& head, const std::string& statement) {
  const std::string line = head + " { " + statement + " }\n";
  return line.size() <= 121 ? line : head + " {\n  " + statement + "\n}\n";
}

std::string variant_name(const Op& op, Variant variant) {
  switch (variant) {
    case Variant::functional:
      return op.name();
    case Variant::inplace:
      return op.name().back() == '_' ? op.name() : op.name() + "_";
    case Variant::out:
      return op.name() + "_out";
  }
  return op.name();
}

std::string signature(const Op& op, Variant variant, bool with_defaults) {
  std::vector<std::string> parts = public_parameters(op, with_defaults);
  std::string result = public_return_type(op);
  if (variant != Variant::functional && !op.schema.results.empty()) result = "Tensor";
  if (variant == Variant::out) parts.insert(parts.begin(), "const Tensor& out");
  return wrap(result + " " + variant_name(op, variant), parts, "");
}

std::string of_a_temporary(const Op& op) {
  std::vector<std::string> parts = public_parameters(op, true), passed = {"from"};
  for (size_t i = 1; i < parts.size(); ++i) passed.push_back(name_of(parts[i]));
  const std::string self = name_of(parts[0]);
  parts[0] = "Tensor&& " + self;
  return wrap("inline Tensor " + op.name(), parts, " {\n") + "  const Tensor from = std::move(" + self + ");\n" +
         indent(wrap("return " + op.name(), passed, ";\n"), 2) + "}\n";
}

std::string row_signature(const Op& op, bool with_defaults) {
  return wrap(return_type(op) + " " + op.name(), row_parameters(op, with_defaults), "");
}

std::string raw_signature(const Op& op, bool out, bool with_defaults) {
  if (!out && op.takes_rows()) return row_signature(op, with_defaults);
  std::vector<std::string> parts = parameters(op, with_defaults);
  if (!out) return wrap(return_type(op) + " " + op.name(), parts, "");
  parts.insert(parts.begin(), "const Tensor& out");
  return wrap("void " + op.name() + "_out", parts, "");
}

std::string native_signature(const Op& op, bool with_defaults) {
  const std::string result = op.writes_argument() ? "void" : return_type(op);
  return wrap(result + " " + op.name(), parameters(op, with_defaults), "");
}

std::string composite_signature(const Op& op) { return wrap(return_type(op) + " " + op.name(), parameters(op, false), ""); }

std::vector<std::string> kernel_parameters(const Op& op) {
  if (op.body == Op::Body::pointwise)
    return {"const Context&", "DType compute", "std::span<const View> inputs", "std::span<const Number> numbers",
            "const View& result"};
  std::vector<std::string> parts = {"const Context&"};
  for (const Parameter& parameter : op.schema.parameters())
    parts.push_back(
        (parameter.is_record() ? "const " + view_name(*parameter.type.record) + "&" : kernel_parameter_type(parameter.type)) +
        " " + parameter.name);
  for (const Parameter& outcome : op.schema.outcomes())
    parts.push_back(outcome.is_record() ? "const " + view_name(*outcome.type.record) + "& " + outcome.name
                                        : "const View& " + op.result_name(outcome.first));
  return parts;
}

}  // namespace opgen::cpp
