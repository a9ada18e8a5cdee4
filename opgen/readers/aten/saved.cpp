#include "opgen/readers/aten/saved.h"

#include <algorithm>
#include <functional>

#include "opgen/readers/aten/helpers.h"

namespace opgen::aten {
namespace {

using Read = std::function<void(const std::string& name, const std::string& property)>;

/// Calls `read` for every name of a formula with the property that is needed of it; "" if that is the whole value.
void walk(const ExprPtr& expr, const std::string& property, const Read& read) {
  if (expr->is(ExprKind::name)) return read(expr->text, property);
  for (size_t i = 0; i < expr->args.size(); ++i) {
    std::string needed;
    if (expr->is(ExprKind::method) && i == 0) needed = property_of_method(expr->text);
    if (expr->is(ExprKind::method) && i > 0) needed = property_of_argument(expr->text, i);
    if (expr->is(ExprKind::call)) needed = property_of_argument(expr->text, i);
    if (expr->is(ExprKind::index) && i == 0) needed = property;  // of an element
    if (needed == "size" && expr->args.size() == 2) {
      const ExprPtr& dim = expr->args[1];
      const bool constant = dim->is(ExprKind::number) || dim->is(ExprKind::name);
      needed = constant ? "size(" + dim->text + ")" : "sizes";
    }
    walk(expr->args[i], needed, read);
  }
}

}  // namespace

int result_index(const Function& function, const std::string& name) {
  const size_t count = function.schema.results.size();
  for (size_t i = 0; i < count; ++i) {
    if (name == function.result_name(i) || (count > 1 && name == "result" + std::to_string(i))) return static_cast<int>(i);
  }
  return count == 1 && name == "result" ? 0 : -1;
}

std::vector<Saved> saved_by(const RuleSet& rules, const Function& function) {
  const size_t arguments = function.schema.arguments.size();
  std::vector<Saved> all(arguments + function.schema.results.size());
  std::vector<std::vector<const Rule*>> readers(all.size());
  const auto place = [&](const std::string& name) -> int {
    for (size_t i = 0; i < arguments; ++i) {
      if (function.schema.arguments[i].name == name) return static_cast<int>(i);
    }
    const int result = result_index(function, name);
    return result < 0 ? -1 : static_cast<int>(arguments) + result;
  };
  size_t formulas = 0;
  for (const Rule& rule : rules.rules) {
    if (!rule.reverse || !rule.tree) continue;
    ++formulas;
    walk(rule.tree, "", [&](const std::string& name, const std::string& property) {
      const int at = place(name);
      if (at < 0) return;
      Saved& saved = all[static_cast<size_t>(at)];
      saved.name = name;
      saved.result = static_cast<size_t>(at) >= arguments;
      if (property.empty())
        saved.whole = true;
      else if (std::find(saved.properties.begin(), saved.properties.end(), property) == saved.properties.end())
        saved.properties.push_back(property);
      std::vector<const Rule*>& reading = readers[static_cast<size_t>(at)];
      if (reading.empty() || reading.back() != &rule) reading.push_back(&rule);
    });
  }
  std::vector<Saved> found;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].name.empty()) continue;
    if (all[i].whole) all[i].properties.clear();
    if (formulas > 1 && readers[i].size() == 1) all[i].only_for = readers[i][0]->keys;
    found.push_back(std::move(all[i]));
  }
  return found;
}

}  // namespace opgen::aten
