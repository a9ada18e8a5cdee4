#include "opgen/ir/op.h"

#include <algorithm>

#include "opgen/ir/program.h"

namespace opgen {

const Rule* Op::reverse_rule(size_t argument) const {
  for (const Rule& rule : reverse) {
    if (std::find(rule.of.begin(), rule.of.end(), argument) != rule.of.end()) return &rule;
  }
  return nullptr;
}

bool Op::is_constant(size_t argument) const { return std::find(constants.begin(), constants.end(), argument) != constants.end(); }

bool Op::is_constant_result(size_t result) const {
  if (std::find(constant_results.begin(), constant_results.end(), result) != constant_results.end()) return true;
  if (!schema.results[result].type.is_tensor_like()) return true;
  const TermPtr dtype = result < allocations.size() ? allocations[result].dtype : nullptr;
  return dtype && dtype->is(TermKind::literal) && dtype->text.find("float") == std::string::npos;
}

std::vector<size_t> Op::differentiable() const {
  std::vector<size_t> inputs;
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    const bool ends = limit.order > 0 && !is_constant(i);
    if (schema.arguments[i].type.is_tensor_like() && (ends || reverse_rule(i))) inputs.push_back(i);
  }
  return inputs;
}

Op& Program::add(std::unique_ptr<Op> op) {
  by_name_.emplace(op->name(), op.get());
  ops.push_back(std::move(op));
  return *ops.back();
}

std::vector<const Op*> Program::overloads_of(const std::string& name) const {
  std::vector<const Op*> found;
  const auto [begin, end] = by_name_.equal_range(name);
  for (auto it = begin; it != end; ++it) found.push_back(it->second);
  return found;
}

std::vector<std::string> Program::op_names() const {
  std::vector<std::string> names;
  for (const auto& op : ops) names.push_back(op->name());
  return names;
}

}  // namespace opgen
