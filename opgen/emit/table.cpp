#include "opgen/emit/table.h"

#include <fmt/format.h>

#include "opgen/emit/plan.h"
#include "opgen/text.h"

namespace opgen {
namespace {

bool composite(const Entry& entry) { return entry.body == Entry::Body::composite || entry.body == Entry::Body::composite_cpp; }

bool has_reverse(const Entry& entry) { return composite(entry) || has_node(entry); }

bool has_forward(const Entry& entry) {
  return composite(entry) || !entry.forward.empty() || !entry.tangent_terms.empty() || entry.is_view();
}

std::string kernels_text(const Entry& entry) {
  switch (entry.body) {
    case Entry::Body::pointwise: return "cpu: generated    cuda: none yet";
    case Entry::Body::kernel: {
      std::string text;
      for (const char* device : {"cpu", "cuda"}) {
        const auto kernel = entry.kernels.find(device);
        if (!text.empty()) text += "    ";
        text += kernel == entry.kernels.end() ? fmt::format("{}: none yet", device)
                                              : fmt::format("{0}: kernels/{0}/{1}.{2}", device, kernel->second.file, std::string(device) == "cuda" ? "cu" : "cpp");
      }
      return text;
    }
    case Entry::Body::native: return "none: written in C++ over storage";
    default: return "none: made of other ops";
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

std::string second_order_text(const NodePlan& plan) {
  std::vector<std::string> parts;
  bool all = true;
  std::set<std::string> seen;
  for (const Entry* called : plan.calls) {
    if (called->is_view() || composite(*called) || called->non_differentiable || !seen.insert(called->name()).second) continue;
    const bool reverse = has_reverse(*called), forward = has_forward(*called);
    all = all && reverse;
    if (!reverse || !forward || called->name().find("_backward") != std::string::npos)
      parts.push_back(fmt::format("{}: {}", called->name(), reverse && forward ? "reverse, forward" : reverse ? "reverse only" : forward ? "forward only" : "none"));
  }
  const std::string list = parts.empty() ? "" : " (" + join(parts) + ")";
  return (all ? "yes" : "no") + list;
}

std::string ragged_text(const Entry& entry) {
  const NestedRule& rule = entry.nested;
  if (rule.kind == NestedRule::Kind::error) return "error: " + rule.error;
  if (rule.kind == NestedRule::Kind::values || (rule.kind == NestedRule::Kind::absent && entry.body == Entry::Body::pointwise)) return "on values";
  if (rule.kind == NestedRule::Kind::absent) return "no rule";
  if (rule.kind == NestedRule::Kind::cpp) return rule.cpp;
  std::vector<std::string> parts;
  if (rule.values_if) parts.push_back(to_string(rule.values_if) == "true" ? "on values" : "on values if " + to_string(rule.values_if));
  if (!rule.segment.empty()) parts.push_back("dim ragged: " + rule.segment);
  return join(parts, ";  ");
}

}  // namespace

void emit_table(const Library& library, Files& files, Problems& problems, std::vector<std::string>& notes) {
  std::string rows;
  std::string stem;
  for (const auto& entry : library.entries) {
    if (entry->external) continue;
    if (stem.empty()) stem = entry->stem;
    try {
      std::string saves = "nothing", derivatives;
      if (composite(*entry)) {
        derivatives = "reverse yes   forward yes   second order yes (through the ops that it calls)";
      } else if (!has_node(*entry)) {
        derivatives = "none: not differentiable";
      } else {
        const NodePlan plan = plan_node(*entry, library);
        saves = saves_text(plan);
        const std::string second = second_order_text(plan);
        derivatives = fmt::format("reverse yes   forward {}   second order {}", has_forward(*entry) ? "yes" : "no", second);
        if (!has_forward(*entry)) notes.push_back(fmt::format("{}:{}: {} has no forward derivative", entry->at.file, entry->at.line, entry->unique_name()));
        if (second.rfind("no", 0) == 0) notes.push_back(fmt::format("{}:{}: {} has no second derivative{}", entry->at.file, entry->at.line, entry->unique_name(), second.substr(2)));
      }
      rows += fmt::format("    {{{}, {}, {},\n     {}, {}, {},\n     {},\n     {}}},\n", quoted(entry->name()), quoted(entry->schema.to_string()),
                          quoted(entry->doc), quoted(fmt::format("{}:{}", entry->at.file, entry->at.line)), quoted(kernels_text(*entry)), quoted(saves),
                          quoted(derivatives), quoted(ragged_text(*entry)));
    } catch (const Problem& problem) {
      problems.emplace_back(problem.what());
    }
  }
  files["deckle/ops/generated/op_table.cpp"] =
      "// Generated from the op entries; change those, not this file.\n#include \"deckle/ops/op_table.h\"\n\nnamespace deckle {\nnamespace {\n\nconstexpr OpInfo kOps[] = {\n" +
      rows + "};\n\n}  // namespace\n\nstd::span<const OpInfo> op_table() { return kOps; }\n\n}  // namespace deckle\n";
}

}  // namespace opgen
