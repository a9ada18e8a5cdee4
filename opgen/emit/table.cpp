#include "opgen/emit/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/emit/calls.h"
#include "opgen/emit/nested.h"
#include "opgen/emit/plan.h"
#include "opgen/text.h"

namespace opgen {
namespace {

bool composite(const Entry& entry) { return entry.body == Entry::Body::composite || entry.body == Entry::Body::composite_cpp; }

std::string kernels_text(const Entry& entry) {
  switch (entry.body) {
    case Entry::Body::pointwise:
      return "cpu: generated    cuda: none yet";
    case Entry::Body::kernel: {
      std::string text;
      for (const char* device : {"cpu", "cuda"}) {
        const auto kernel = entry.kernels.find(device);
        if (!text.empty()) text += "    ";
        text += kernel == entry.kernels.end() ? fmt::format("{}: none yet", device)
                                              : fmt::format("{0}: kernels/{0}/{1}.{2}", device, kernel->second.file,
                                                            std::string(device) == "cuda" ? "cu" : "cpp");
      }
      return text;
    }
    case Entry::Body::native:
      return "none: written in C++ over storage";
    default:
      return "none: made of other ops";
  }
}

std::string saves_text(const NodePlan& plan) {
  std::vector<std::string> parts;
  for (const Field& field : plan.fields) {
    std::string part = field.name;
    if (!field.only_for.empty()) part += " (for " + join({field.only_for.begin(), field.only_for.end()}) + ")";
    parts.push_back(part);
  }
  return parts.empty() ? "nothing" : join(parts);
}

const char* yes_or_no(bool yes) { return yes ? "yes" : "no"; }

/// What the ops that the reverse formulas call have in turn: "yes (silu_backward: reverse, forward)".
std::string second_order_text(const std::set<const Entry*>& called_ops, const Calls& calls) {
  std::set<std::string> parts;  // overloads say the same
  for (const Entry* called : called_ops) {
    const ForwardMode forward = forward_mode_of(*called, calls);
    if (forward.by_hand)
      parts.insert(called->name() + ": by hand");
    else if (!forward.exists || called->name().find("_backward") != std::string::npos)
      parts.insert(called->name() + (forward.exists ? ": reverse, forward" : ": reverse only"));
  }
  return parts.empty() ? "yes" : "yes (" + join({parts.begin(), parts.end()}) + ")";
}

/// Derivatives of a composite, through all that it calls.
std::string composite_text(const Entry& entry, const Calls& calls) {
  if (entry.body == Entry::Body::composite_cpp) return "those of the ops that it calls: written by hand, not known here";
  const ForwardMode forward = forward_mode_of(entry, calls);
  return fmt::format("reverse yes   forward {}   second order yes (through the ops that it calls{})", yes_or_no(forward.exists),
                     forward.by_hand ? ", some of them written by hand" : "");
}

std::string dim_text(const DimRule& rule) { return (rule.refused ? "no: " : "") + rule.text; }

std::string ragged_text(const Entry& entry) {
  const NestedRule& rule = entry.nested;
  if (rule.kind == NestedRule::Kind::error) return "error: " + rule.error;
  if (rule.kind == NestedRule::Kind::values || (rule.kind == NestedRule::Kind::absent && entry.body == Entry::Body::pointwise))
    return "on values";
  if (rule.kind == NestedRule::Kind::rows) return "row by row, over the last dim, which is to be regular";
  if (rule.kind == NestedRule::Kind::whole) return "over all elements: a dense result";
  if (rule.kind == NestedRule::Kind::absent) return "no rule";
  if (rule.kind == NestedRule::Kind::segment)
    return "on values over regular dims; " + rule.segment + " over the batch and ragged dims";
  std::vector<std::string> parts;
  for (size_t kind = 0; kind < kDimKinds.size(); ++kind)
    parts.push_back(fmt::format("{}: {}", kDimKinds[kind], dim_text(rule.over[kind])));
  return join(parts, "; ");
}

/// What the op does over the batch, a ragged and a regular dim: `{"by position", "yes", "yes"}`; nothing if it refuses nested
/// tensors.
std::string dims_text(const Entry& entry) {
  const NestedRule& rule = entry.nested;
  std::vector<std::string> cells = {"each", "each", "each"};
  if (rule.kind == NestedRule::Kind::error || (rule.kind == NestedRule::Kind::absent && entry.body != Entry::Body::pointwise))
    cells = {"", "", ""};
  else if (rule.kind == NestedRule::Kind::cpp)
    cells = {dim_text(rule.over[0]), dim_text(rule.over[1]), dim_text(rule.over[2])};
  else if (rule.kind == NestedRule::Kind::whole)
    cells = {"all", "all", "all"};
  else if (rule.kind == NestedRule::Kind::rows)
    cells = {"each", "each", "the last"};
  else if (rule.kind == NestedRule::Kind::segment)
    cells = {"by position", "yes", "yes"};
  return fmt::format("{{{}, {}, {}}}", quoted(cells[0]), quoted(cells[1]), quoted(cells[2]));
}

}  // namespace

void emit_table(const Library& library, Files& files, Problems& problems, std::vector<std::string>& notes) {
  const Calls calls = composite_calls(library);
  std::string rows;
  for (const auto& entry : library.entries) {
    if (entry->external) continue;
    try {
      std::string saves = "nothing", derivatives;
      if (composite(*entry)) {
        derivatives = composite_text(*entry, calls);
      } else if (!has_node(*entry)) {
        derivatives = "none: not differentiable";
      } else {
        const NodePlan plan = plan_node(*entry, library);
        saves = saves_text(plan);
        const bool forward = forward_mode_of(*entry, calls).exists;
        derivatives =
            fmt::format("reverse yes   forward {}   second order {}", yes_or_no(forward), second_order_text(plan.calls, calls));
        if (!forward)
          notes.push_back(
              fmt::format("{}:{}: {} has no forward derivative", entry->at.file, entry->at.line, entry->unique_name()));
      }
      rows += fmt::format("    {{{}, {}, {},\n     {}, {}, {},\n     {},\n     {},\n     {}}},\n", quoted(entry->name()),
                          quoted(entry->schema.to_string()), quoted(entry->doc),
                          quoted(fmt::format("{}:{}", entry->at.file, entry->at.line)), quoted(kernels_text(*entry)),
                          quoted(saves), quoted(derivatives), quoted(ragged_text(*entry)), dims_text(*entry));
    } catch (const Problem& problem) {
      problems.emplace_back(problem.what());
    }
  }
  files["deckle/ops/generated/op_table.cpp"] =
      "// Generated from the op entries; change those, not this file.\n#include \"deckle/ops/op_table.h\"\n\nnamespace deckle "
      "{\nnamespace {\n\nconstexpr OpInfo kOps[] = {\n" +
      rows + "};\n\n}  // namespace\n\nstd::span<const OpInfo> op_table() { return kOps; }\n\n}  // namespace deckle\n";
}

}  // namespace opgen
