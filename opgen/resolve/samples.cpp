#include "opgen/resolve/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "opgen/resolve/convert.h"
#include "opgen/resolve/sample_values.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

/// One sample of one op.
class SampleResolver {
 public:
  SampleResolver(const Op& op, const Tree& node) : op_(op), node_(node) {}

  Sample resolve() {
    check_keys();
    for (size_t i = 0; i < op_.schema.arguments.size(); ++i) sample_.arguments.push_back(argument(i));
    sample_.differentiable = differentiable();
    return std::move(sample_);
  }

 private:
  static void check_once(const Tree& map) {
    std::set<std::string> seen;
    for (const Branch& pair : map.branches()) {
      const std::string& key = pair.key.scalar();
      if (!seen.insert(key).second) pair.key.fail(fmt::format("'{}' stands twice in a sample: give it one value", key));
      if (pair.value.is_map()) check_once(pair.value);
    }
  }

  void check_keys() const {
    if (!node_.is_map()) node_.fail("a sample is a map {argument: value}");
    check_once(node_);
    const std::vector<std::string> names = op_.argument_names();
    for (const Branch& pair : node_.branches()) {
      const std::string& key = pair.key.scalar();
      if (std::find(names.begin(), names.end(), key) == names.end())
        pair.key.fail(fmt::format("'{}' has no argument named '{}'{}", op_.name(), key, did_you_mean(key, names)));
      if (const Group* const record = op_.schema.find_group(key)) check_fields(pair.value, *record);
    }
  }

  void check_fields(const Tree& node, const Group& record) const {
    const std::string& type = record.type.record->name;
    if (!node.is_map()) node.fail(fmt::format("the sample of a record is {{field: value}}: '{}' is {}", record.name, type));
    std::vector<std::string> names;
    for (const Argument& field : record.type.record->fields) names.push_back(field.name);
    for (const Branch& pair : node.branches()) {
      const std::string& key = pair.key.scalar();
      if (std::find(names.begin(), names.end(), key) == names.end())
        pair.key.fail(fmt::format("{} has no field '{}'{}", type, key, did_you_mean(key, names)));
    }
  }

  /// What the sample says of an argument, or of a field of a record.
  Tree given(size_t index) const {
    for (const Group& record : op_.schema.groups) {
      if (index >= record.first && index < record.first + record.count())
        return node_[record.name][record.type.record->fields[index - record.first].name];
    }
    return node_[op_.schema.arguments[index].name];
  }

  bool differentiable() const {
    if (op_.non_differentiable || op_.limit.order > 0 || !op_.test_gradients) return false;
    if (!op_.is_composite() && !op_.has_node()) return false;
    for (size_t i = 0; i < op_.schema.arguments.size(); ++i) {
      const SampleArgument& argument = sample_.arguments[i];
      if (argument.kind == SampleArgument::Kind::dtype && argument.given && argument.values[0] != "float64") return false;
    }
    return std::any_of(sample_.tensors.begin(), sample_.tensors.end(),
                       [](const SampleTensor& tensor) { return tensor.differentiable; });
  }

  void add_tensor(size_t index, const Tree& node) {
    SampleTensor tensor = sample_values::tensor(node);
    tensor.differentiable = tensor.differentiable && !op_.non_differentiable && !op_.is_constant(index);
    tensor.argument = index;
    sample_.tensors.push_back(std::move(tensor));
  }

  SampleArgument left_out(const Argument& argument) const {
    using Kind = SampleArgument::Kind;
    SampleArgument result;
    if (argument.type.is(Base::generator))
      result.kind = Kind::generator;
    else if (argument.default_value && *argument.default_value != "None")
      result.kind = Kind::standard;
    else if (!argument.type.optional)
      node_.fail(fmt::format("the sample gives no '{}'", argument.label()));
    return result;
  }

  SampleArgument list(size_t index, const Tree& node) {
    const Argument& argument = op_.schema.arguments[index];
    SampleArgument result;
    result.kind = argument.type.base == Base::tensor ? SampleArgument::Kind::tensors : SampleArgument::Kind::numbers;
    result.first = sample_.tensors.size();
    if (argument.type.base == Base::tensor) {
      if (!node.is_list()) node.fail("a Tensor[] sample is a list of tensors");
      for (const Branch& element : node.branches()) add_tensor(index, element.value);
      result.count = sample_.tensors.size() - result.first;
    } else if (node.is_list()) {
      for (const Branch& element : node.branches())
        result.values.push_back(sample_values::number(element.value, argument.type.base));
    } else {
      result.values.push_back(sample_values::number(node, argument.type.base));
    }
    return result;
  }

  SampleArgument argument(size_t index) {
    using Kind = SampleArgument::Kind;
    const Argument& argument = op_.schema.arguments[index];
    const Tree node = given(index);
    if (!node.given()) return left_out(argument);
    SampleArgument result = value(index, argument, node);
    result.given = true;
    if (result.kind == Kind::absent) result.kind = Kind::number;
    return result;
  }

  SampleArgument value(size_t index, const Argument& argument, const Tree& node) {
    using Kind = SampleArgument::Kind;
    if (argument.type.list) return list(index, node);
    SampleArgument result;
    switch (argument.type.base) {
      case Base::tensor:
        result.kind = Kind::tensor;
        result.first = sample_.tensors.size();
        result.count = 1;
        add_tensor(index, node);
        break;
      case Base::dtype:
        result.kind = Kind::dtype;
        result.values = {sample_values::dtype(node)};
        break;
      case Base::string:
        result.kind = Kind::text;
        result.values = {node.scalar()};
        break;
      case Base::enumeration:
        result.kind = Kind::enumerator;
        result.values = {enum_value(*argument.type.enumeration, node.scalar(), node.at())};
        break;
      case Base::ragged:
        result = sample_values::ragged(node);
        break;
      case Base::generator:
        result.kind = Kind::generator;
        break;
      case Base::plan:
        node.fail("a Plan has no sample: say tests: {gradients: false, because: ...} and test the op by hand");
      default:
        result.kind = Kind::number;
        result.values = {sample_values::number(node, argument.type.base)};
    }
    return result;
  }

  const Op& op_;
  const Tree& node_;
  Sample sample_;
};

std::vector<Sample> all(const Tree& given, const Library& library, const Op& op) {
  std::vector<Sample> samples;
  if (!given.given()) return samples;
  const Tree list = given.is_scalar() ? library.sample_sets.at(given.scalar()) : given;
  for (const Branch& node : list.branches()) {
    try {
      samples.push_back(SampleResolver(op, node.value).resolve());
    } catch (const Problem& problem) {
      if (!given.is_scalar()) throw;
      given.fail(fmt::format("the sample set '{}' does not fit: {}", given.scalar(), problem.message()));
    }
  }
  return samples;
}

}  // namespace

void resolve_samples(const Entry& entry, const Library& library, Op& op) {
  op.samples = all(entry.samples, library, op);
  op.nested_samples = all(entry.nested_samples, library, op);
}

}  // namespace opgen
