#include "opgen/emit/calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/check/lower.h"
#include "opgen/emit/plan.h"
#include "opgen/text.h"

namespace opgen {
namespace {

std::set<const Entry*> called_by(const Entry& entry, const Library& library) {
  Scope scope = argument_scope(entry, library);
  for (const auto& [let, value] : entry.composite.lets) scope.names[let] = {lower(value, scope).type, let, {}, ""};
  (void)lower(entry.composite.body, scope);
  return scope.calls;
}

/// Walks from `entry` along `path`; a composite met again closes a cycle, which is reported once, by its first op.
void walk(const Entry* entry, const Calls& calls, std::vector<const Entry*>& path, std::set<const Entry*>& done,
          Problems& problems) {
  const auto again = std::find(path.begin(), path.end(), entry);
  if (again != path.end()) {
    std::vector<std::string> names;
    for (auto it = again; it != path.end(); ++it) names.push_back((*it)->name());
    names.push_back(entry->name());
    problems.emplace_back(
        Problem(entry->body_at, fmt::format("the composite '{}' calls itself: {}", entry->name(), join(names, " -> "))).what());
    return;
  }
  const auto found = calls.find(entry);
  if (found == calls.end() || !done.insert(entry).second) return;
  path.push_back(entry);
  for (const Entry* called : found->second) walk(called, calls, path, done, problems);
  path.pop_back();
}

}  // namespace

Calls composite_calls(const Library& library) {
  Calls calls;
  for (const auto& entry : library.entries) {
    if (entry->body != Entry::Body::composite) continue;
    try {
      calls[entry.get()] = called_by(*entry, library);
    } catch (const Problem&) {  // said where the composite is emitted
      calls[entry.get()] = {};
    }
  }
  return calls;
}

void check_cycles(const Calls& calls, Problems& problems) {
  std::vector<const Entry*> path;
  std::set<const Entry*> done;
  std::vector<const Entry*> entries;
  for (const auto& [entry, called] : calls) entries.push_back(entry);
  std::sort(entries.begin(), entries.end(), [](const Entry* a, const Entry* b) { return a->unique_name() < b->unique_name(); });
  for (const Entry* entry : entries) walk(entry, calls, path, done, problems);
}

ForwardMode forward_mode_of(const Entry& entry, const Calls& calls) {
  if (entry.body == Entry::Body::composite_cpp) return {true, true};
  if (entry.body == Entry::Body::composite) {
    ForwardMode all;
    for (const Entry* called : calls.at(&entry)) {
      const ForwardMode one = forward_mode_of(*called, calls);
      all = {all.exists && one.exists, all.by_hand || one.by_hand};
    }
    return all;
  }
  if (!has_node(entry)) return {};  // a constant: nothing is missing
  return {!entry.forward.empty() || !entry.tangent_terms.empty() || entry.is_view(), false};
}

}  // namespace opgen
