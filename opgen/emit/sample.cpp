#include "opgen/emit/sample.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/emit/cpp_types.h"
#include "opgen/emit/plan.h"
#include "opgen/text.h"

namespace opgen {

bool takes(const Entry& entry, Base base) {
  return std::any_of(entry.schema.arguments.begin(), entry.schema.arguments.end(),
                     [&](const Argument& argument) { return argument.type.is(base); });
}

Sample::Sample(const Entry& entry, const YAML::Node& node) : entry_(entry), values_(entry.at.file), node_(node) {
  check_keys();
  for (const Argument& argument : entry_.schema.arguments) arguments_.push_back(argument_text(argument));
}

void Sample::check_keys() const {
  if (!node_.IsMap()) values_.fail(node_, "a sample is a map {argument: value}");
  std::vector<std::string> names = argument_names(entry_);
  for (const auto& pair : node_) {
    const std::string key = pair.first.Scalar();
    if (std::find(names.begin(), names.end(), key) == names.end())
      values_.fail(pair.first, fmt::format("'{}' has no argument named '{}'{}", entry_.name(), key, did_you_mean(key, names)));
  }
}

bool Sample::differentiable() const {
  if (entry_.non_differentiable || !entry_.test_gradients) return false;
  const bool composite = entry_.body == Entry::Body::composite || entry_.body == Entry::Body::composite_cpp;
  if (!composite && !has_node(entry_)) return false;
  for (const Argument& argument : entry_.schema.arguments) {
    if (argument.type.is(Base::dtype) && given(argument) && node_[argument.name].Scalar() != "float64") return false;
  }
  return std::any_of(tensors_.begin(), tensors_.end(), [](const Tensor& tensor) { return tensor.differentiable; });
}

/// Adds a tensor; returns how the call reads it.
std::string Sample::add_tensor(const Argument& argument, const YAML::Node& node) {
  const SampleValues::Tensor made = values_.tensor(node);
  const Rule* rule = entry_.reverse_rule(argument.name);
  tensors_.push_back({made.cpp, made.differentiable && !(rule && rule->kind == Rule::Kind::non_differentiable), argument.name});
  return fmt::format("t[{}]", tensors_.size() - 1);
}

std::string Sample::argument_text(const Argument& argument) {
  const YAML::Node node = node_[argument.name];
  if (!given(argument)) {
    if (argument.type.is(Base::generator)) return "&generator";
    if (argument.default_value && *argument.default_value != "None") {
      const std::string text = default_value(argument);
      return text[0] == '{' ? parameter_type(argument.type) + text : text;
    }
    if (argument.type.is_tensor()) {
      if (!argument.type.optional) values_.fail(node_, fmt::format("the sample gives no '{}'", argument.name));
      return "Tensor()";
    }
    if (!argument.type.optional) values_.fail(node_, fmt::format("the sample gives no '{}'", argument.name));
    return "std::nullopt";
  }
  if (argument.type.is_tensor()) return add_tensor(argument, node);
  if (argument.type.list) {
    std::vector<std::string> parts;
    if (argument.type.base == Base::tensor) {
      if (!node.IsSequence()) values_.fail(node, "a Tensor[] sample is a list of tensors");
      for (const auto& element : node) parts.push_back(add_tensor(argument, element));
      return "TensorList{" + join(parts) + "}";
    }
    if (node.IsSequence()) {
      for (const auto& element : node) parts.push_back(values_.number(element, argument.type.base));
    } else {
      parts.push_back(values_.number(node, argument.type.base));
    }
    return (argument.type.base == Base::integer ? "Ints{" : "{") + join(parts) + "}";
  }
  switch (argument.type.base) {
    case Base::dtype:
      return values_.dtype(node);
    case Base::string:
      return quoted(node.Scalar());
    case Base::ragged:
      return values_.ragged(node);
    case Base::generator:
      return "&generator";
    case Base::plan:
      values_.fail(node, "a Plan has no sample: say tests: {gradients: false, because: ...} and test the op by hand");
    default:
      return values_.number(node, argument.type.base);
  }
}

}  // namespace opgen
