#include "opgen/analyze/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "opgen/analyze/uses.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

/// Walks from `op` along `path`; a composite met again closes a cycle, which is reported once, by its first op.
void walk(const Op* op, std::vector<const Op*>& path, std::set<const Op*>& done, Problems& problems) {
  const auto again = std::find(path.begin(), path.end(), op);
  if (again != path.end()) {
    std::vector<std::string> names;
    for (auto it = again; it != path.end(); ++it) names.push_back((*it)->name());
    names.push_back(op->name());
    return refuse(problems, op->body_at, fmt::format("the composite '{}' calls itself: {}", op->name(), join(names, " -> ")));
  }
  if (!op->is_composite() || !done.insert(op).second) return;
  path.push_back(op);
  for (const Op* called : parts_of(*op)) walk(called, path, done, problems);
  path.pop_back();
}

}  // namespace

std::set<const Op*> parts_of(const Op& op) {
  std::set<const Op*> parts(op.calls.begin(), op.calls.end());
  collect_calls(op.composite, parts);
  for (const auto& [device, formula] : op.composite_on) collect_calls(formula, parts);
  return parts;
}

bool calls_factory(const Block& formula) {
  std::set<const Op*> calls;
  collect_calls(formula, calls);
  return std::any_of(calls.begin(), calls.end(), [](const Op* op) { return op->tensors().empty(); });
}

bool waits_for_device(const Op& op) {
  if (!op.host.empty()) return true;
  const std::set<const Op*> parts = parts_of(op);
  return std::any_of(parts.begin(), parts.end(), [](const Op* part) { return waits_for_device(*part); });
}

std::set<const Op*> reverse_calls(const Op& op) {
  std::set<const Op*> calls;
  for (const Rule& rule : op.reverse) collect_calls(rule.formula, calls);
  return calls;
}

std::set<const Op*> calls_of(const Op& op) {
  std::set<const Op*> calls = reverse_calls(op);
  const auto add = [&](const TermPtr& term) {
    if (term) collect_calls(*term, calls);
  };
  collect_calls(op.composite, calls);
  for (const auto& [device, formula] : op.composite_on) collect_calls(formula, calls);
  for (const Rule& rule : op.forward) collect_calls(rule.formula, calls);
  for (const TangentTerm& term : op.tangent_terms) collect_calls(term.formula, calls);
  for (const Wrap& wrap : op.wraps) add(wrap.rank);
  for (const Check& check : op.checks) {
    add(check.condition);
    for (const Check::Piece& piece : check.message) add(piece.value);
  }
  for (const Allocation& allocation : op.allocations) {
    for (const TermPtr& term : {allocation.like, allocation.shape, allocation.dtype}) add(term);
  }
  return calls;
}

void check_cycles(const Program& program, Problems& problems) {
  std::vector<const Op*> path, composites;
  std::set<const Op*> done;
  for (const auto& op : program.ops) {
    if (op->is_composite()) composites.push_back(op.get());
  }
  std::sort(composites.begin(), composites.end(), [](const Op* a, const Op* b) { return a->unique_name() < b->unique_name(); });
  for (const Op* op : composites) walk(op, path, done, problems);
}

namespace {

/// As collect_calls, but for elements of results that have no derivative: places and the like.
void collect_differentiable(const Term& term, std::set<const Op*>& calls) {
  const bool constant = term.is(TermKind::index) && term.arguments.size() == 1 && term.arguments[0]->is(TermKind::op) &&
                        term.arguments[0]->op->is_constant_result(term.position);
  if (constant) return;
  if (term.is(TermKind::op)) calls.insert(term.op);
  for (const TermPtr& part : term.arguments) collect_differentiable(*part, calls);
}

/// Whether gradients that this op computed have gradients in turn; asks no composite twice.
bool ends_derivatives(const Op& op, std::set<const Op*>& asked) {
  if (op.limit.order > 0) return true;
  if (!op.is_composite() || !asked.insert(&op).second) return false;
  const std::set<const Op*> parts = parts_of(op);
  return std::any_of(parts.begin(), parts.end(), [&](const Op* part) { return ends_derivatives(*part, asked); });
}

/// What composites, each of which may call the next one several times, were found to have.
using Known = std::map<const Op*, Derivatives>;

Derivatives derivatives_of(const Op& op, Known& known);

std::set<const Op*> made_of(const Op& op, Known& known) {
  std::set<const Op*> calls(op.calls.begin(), op.calls.end()), parts;
  const auto collect = [&](const Block& formula) {
    for (const Let& let : formula.lets) collect_differentiable(*let.value, calls);
    if (formula.value) collect_differentiable(*formula.value, calls);
  };
  collect(op.composite);
  for (const auto& [device, formula] : op.composite_on) collect(formula);
  for (const Op* called : calls) {
    if (derivatives_of(*called, known).exist || called->limit.order > 0) parts.insert(called);
  }
  return parts;
}

Derivatives derivatives_of(const Op& op, Known& known) {
  if (const auto found = known.find(&op); found != known.end()) return found->second;
  Derivatives result;
  if (op.is_composite()) {
    for (const Op* part : made_of(op, known)) {
      const Derivatives one = derivatives_of(*part, known);
      result.exist = result.exist || one.exist;
      result.no_forward.insert(one.no_forward.begin(), one.no_forward.end());
      result.no_second.insert(one.no_second.begin(), one.no_second.end());
    }
    return known[&op] = result;
  }
  if (!op.has_node()) return result;
  result.exist = op.limit.order == 0;
  if (!result.exist || (!op.has_forward() && !op.is_view())) result.no_forward.insert(op.name());
  if (!result.exist) result.no_second.insert(op.name());
  for (const Op* called : reverse_calls(op)) {
    std::set<const Op*> asked;
    if (ends_derivatives(*called, asked)) result.no_second.insert(op.name());
  }
  return result;
}

}  // namespace

std::set<const Op*> made_of(const Op& op) {
  Known known;
  return made_of(op, known);
}

Derivatives derivatives_of(const Op& op) {
  Known known;
  return derivatives_of(op, known);
}

}  // namespace opgen
