#include "opgen/emit/tests/sample.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/emit/cpp/options.h"
#include "opgen/emit/cpp/records.h"
#include "opgen/emit/cpp/types.h"
#include "opgen/schema/dtypes.h"
#include "opgen/text/strings.h"

namespace opgen::tests {
namespace {

std::string number_text(const std::string& number) {
  if (number == "inf") return "std::numeric_limits<double>::infinity()";
  if (number == "-inf") return "-std::numeric_limits<double>::infinity()";
  if (number == "nan") return "std::numeric_limits<double>::quiet_NaN()";
  return number == "pi" ? "3.14159265358979323846" : number;
}

std::vector<std::string> number_texts(const std::vector<std::string>& numbers) {
  std::vector<std::string> texts;
  for (const std::string& number : numbers) texts.push_back(number_text(number));
  return texts;
}

/// A literal of the argument's own type, which overloads are told apart by.
std::string typed_number(const std::string& number, const Argument& argument) {
  if (argument.type.list || number.find_first_not_of("-0123456789") != std::string::npos) return number;
  if (argument.type.is(Base::floating)) return number + ".0";
  return argument.type.is(Base::integer) && !is_dim(argument) ? "int64_t{" + number + "}" : number;
}

std::string braces(const std::vector<int64_t>& values) {
  std::vector<std::string> parts;
  for (const int64_t value : values) parts.push_back(std::to_string(value));
  return "{" + join(parts) + "}";
}

std::string tensors_text(const SampleArgument& argument, const char* vector, const char* list) {
  std::vector<std::string> parts;
  for (size_t i = argument.first; i < argument.first + argument.count; ++i) parts.push_back(fmt::format("{}[{}]", vector, i));
  return argument.kind == SampleArgument::Kind::tensor ? parts[0] : list + ("{" + join(parts) + "}");
}

std::string ragged_text(const SampleArgument& argument) {
  const std::string sizes = "std::vector<int64_t>" + braces(argument.sizes);
  if (argument.ragged_dims == 0) return "Ragged::from_lengths(" + sizes + ")";
  return fmt::format("Ragged(std::make_shared<const RaggedShape>({}, {}))", sizes, argument.ragged_dims);
}

}  // namespace

std::string random_call(const SampleTensor& tensor) {
  const std::string sizes = braces(tensor.shape), dtype = dtype_cpp(tensor.dtype);
  switch (tensor.kind) {
    case SampleTensor::Kind::normal:
      return fmt::format("random.normal({})", sizes);
    case SampleTensor::Kind::uniform:
      return fmt::format("random.uniform({}, {}, {})", sizes, number_text(tensor.low), number_text(tensor.high));
    case SampleTensor::Kind::integers:
      return fmt::format("random.integers({}, {}, {}, {})", sizes, tensor.low, tensor.high, dtype);
    case SampleTensor::Kind::values:
      break;
  }
  std::vector<std::string> values;
  for (const std::string& value : tensor.values)
    values.push_back(value == "true" ? "1" : value == "false" ? "0" : number_text(value));
  return fmt::format("random.values({}, {{{}}}, {})", sizes, join(values), dtype);
}

std::string argument_text(const Op& op, const Sample& sample, size_t index) {
  using Kind = SampleArgument::Kind;
  const Argument& argument = op.schema.arguments[index];
  const SampleArgument& given = sample.arguments[index];
  switch (given.kind) {
    case Kind::absent:
      return argument.type.is_tensor() ? "Tensor()" : "std::nullopt";
    case Kind::standard: {
      const std::string text = cpp::default_value(argument);
      if (text[0] != '{') return typed_number(text, argument);
      return (argument.type.base == Base::integer ? cpp::parameter_type(argument.type) : cpp::owned_type(argument.type)) + text;
    }
    case Kind::tensor:
    case Kind::tensors:
      return tensors_text(given, "t", "TensorList");
    case Kind::number:
      return typed_number(number_text(given.values[0]), argument);
    case Kind::numbers:
      return (argument.type.base == Base::integer ? "Ints{" : "{") + join(number_texts(given.values)) + "}";
    case Kind::dtype:
      return dtype_cpp(given.values[0]);
    case Kind::text:
      return quote(given.values[0]);
    case Kind::enumerator:
      return argument.type.enumeration->cpp() + "::" + given.values[0];
    case Kind::ragged:
      return ragged_text(given);
    case Kind::generator:
      return "&generator";
  }
  return "";
}

std::vector<std::string> argument_texts(const Op& op, const Sample& sample) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < sample.arguments.size(); ++i) texts.push_back(argument_text(op, sample, i));
  return texts;
}

std::vector<std::string> public_texts(const Op& op, const Sample& sample, std::vector<std::string> texts) {
  for (size_t i = op.positional(); i < texts.size(); ++i) {
    const SampleArgument::Kind kind = sample.arguments[i].kind;
    if (kind == SampleArgument::Kind::standard || kind == SampleArgument::Kind::absent) texts[i].clear();
  }
  for (const Group& record : op.schema.groups) {
    for (size_t i = record.first; i < record.first + record.count(); ++i) {
      const SampleArgument::Kind kind = sample.arguments[i].kind;
      if (kind == SampleArgument::Kind::standard || kind == SampleArgument::Kind::absent) texts[i].clear();
    }
  }
  return cpp::public_arguments(op, cpp::whole(op, texts));
}

std::string nested_argument_text(const Op&, const Sample& sample, size_t index) {
  return tensors_text(sample.arguments[index], "n", "suite::NestedTensors");
}

std::string tensors_among(const Op& op, const Sample& sample, const std::vector<std::string>& arguments) {
  std::vector<std::string> flags;
  for (const SampleTensor& tensor : sample.tensors) {
    const std::string& name = op.schema.arguments[tensor.argument].name;
    flags.emplace_back(std::find(arguments.begin(), arguments.end(), name) != arguments.end() ? "true" : "false");
  }
  return join(flags);
}

std::string autocast_check(const Op& op, const Sample& sample) {
  return fmt::format("suite::check_autocast(op, autograd::Precision::{}, {{{}}});\n",
                     op.autocast.to == AutocastRule::To::half ? "half" : "float32", tensors_among(op, sample, op.autocast.of));
}

std::vector<std::string> dims_of(const Op& op, const Sample& sample, size_t index) {
  const SampleArgument& given = sample.arguments[index];
  if (given.kind == SampleArgument::Kind::standard) {
    const std::string text = cpp::default_value(op.schema.arguments[index]);
    return {text[0] == '{' ? text.substr(1, text.size() - 2) : text};
  }
  return given.values;
}

}  // namespace opgen::tests
