#include "opgen/analyze/calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/analyze/uses.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

std::set<const Op*> called_by_composite(const Op& op) {
  std::set<const Op*> calls;
  collect_calls(op.composite, calls);
  return calls;
}

/// Walks from `op` along `path`; a composite met again closes a cycle, which is reported once, by its first op.
void walk(const Op* op, std::vector<const Op*>& path, std::set<const Op*>& done, Problems& problems) {
  const auto again = std::find(path.begin(), path.end(), op);
  if (again != path.end()) {
    std::vector<std::string> names;
    for (auto it = again; it != path.end(); ++it) names.push_back((*it)->name());
    names.push_back(op->name());
    problems.emplace_back(
        Problem(op->body_at, fmt::format("the composite '{}' calls itself: {}", op->name(), join(names, " -> "))).what());
    return;
  }
  if (op->body != Op::Body::composite || !done.insert(op).second) return;
  path.push_back(op);
  for (const Op* called : called_by_composite(*op)) walk(called, path, done, problems);
  path.pop_back();
}

}  // namespace

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
    if (op->body == Op::Body::composite) composites.push_back(op.get());
  }
  std::sort(composites.begin(), composites.end(), [](const Op* a, const Op* b) { return a->unique_name() < b->unique_name(); });
  for (const Op* op : composites) walk(op, path, done, problems);
}

ForwardMode forward_mode_of(const Op& op) {
  if (op.body == Op::Body::composite_cpp) return {true, true};
  if (op.body == Op::Body::composite) {
    ForwardMode all;
    for (const Op* called : called_by_composite(op)) {
      const ForwardMode one = forward_mode_of(*called);
      all = {all.exists && one.exists, all.by_hand || one.by_hand};
    }
    return all;
  }
  if (op.limit.order > 0) return {false, false};
  if (!op.has_node()) return {};  // a constant: nothing is missing
  return {op.has_forward() || op.is_view(), false};
}

}  // namespace opgen
