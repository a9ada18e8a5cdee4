#include "opgen/emit/table/facts.h"

#include <fmt/format.h>

#include <set>
#include <string_view>
#include <vector>

#include "opgen/analyze/calls.h"
#include "opgen/analyze/node.h"
#include "opgen/text/strings.h"

namespace opgen::table {
namespace {

std::string kernels_text(const Op& op) {
  switch (op.body) {
    case Op::Body::pointwise:
      return op.home.is_deckle() ? "cpu: generated    cuda: generated" : "cpu: generated    cuda: none yet";
    case Op::Body::kernel: {
      std::string text;
      for (const char* device : {"cpu", "cuda"}) {
        const auto kernel = op.kernels.find(device);
        if (!text.empty()) text += "    ";
        if (kernel == op.kernels.end()) {
          text += fmt::format("{}: none{}", device, op.cpu_only.empty() ? " yet" : "");
          continue;
        }
        const std::string folder = op.home.is_deckle() ? fmt::format("kernels/{}/", device) : "";  // others: where they like
        const char* suffix = std::string_view(device) == "cuda" ? "cu" : "cpp";
        text += fmt::format("{}: {}{}.{}", device, folder, kernel->second.file, suffix);
      }
      return text;
    }
    case Op::Body::native:
      return "none: written in C++ over storage";
    case Op::Body::composite_cpp:
      return fmt::format("none: made of other ops in C++ ({})", op.because);
    default:
      return "none: made of other ops";
  }
}

/// What writing in place must copy first: "a copy of self (for other)".
std::string copied_text(const Op& op) {
  if (!op.inplace && !op.writes_argument()) return "";
  std::vector<std::string> inputs;
  for (const size_t input : plan_node(op).original_self_for) inputs.push_back(op.schema.arguments[input].name);
  return inputs.empty() ? "" : "a copy of self (for " + join(inputs) + ")";
}

std::string recomputed_text(const Op& op) {
  std::vector<std::string> results;
  for (const size_t result : op.recomputed) results.push_back(op.result_name(result));
  return join(results);
}

std::string saves_text(const Op& op) {
  std::vector<std::string> parts;
  for (const Saved& saved : plan_node(op).saved) {
    std::string part = saved.symbol.path.empty() ? saved.symbol.name : saved.symbol.path;
    if (saved.kind == Saved::Kind::count) part += "_count";
    if (saved.symbol.how != Symbol::How::whole) part += std::string("_") + part_name(saved.symbol.how);
    std::vector<std::string> inputs;
    for (const size_t input : saved.only_for) inputs.push_back(op.schema.arguments[input].label());
    if (!inputs.empty()) part += " (for " + join(inputs) + ")";
    parts.push_back(part);
  }
  const std::string copied = copied_text(op);
  return (parts.empty() ? "nothing" : join(parts)) + (copied.empty() ? "" : "; in place also " + copied) +
         (op.recomputed.empty() ? "" : "; computes " + recomputed_text(op) + " again");
}

/// "yes", or "no (one_way)": which ops stand in the way.
std::string unless(const std::set<std::string>& missing) {
  return missing.empty() ? "yes" : "no (" + join({missing.begin(), missing.end()}) + ")";
}

/// What the ops that the reverse formulas call have in turn: " (silu_backward: reverse, forward)".
std::string backward_text(const Op& op) {
  std::set<std::string> parts;  // overloads say the same
  for (const Op* called : reverse_calls(op)) {
    const bool forward = derivatives_of(*called).no_forward.empty();
    if (!forward || called->name().find("_backward") != std::string::npos)
      parts.insert(called->name() + (forward ? ": reverse, forward" : ": reverse only"));
  }
  return parts.empty() ? "" : " (" + join({parts.begin(), parts.end()}) + ")";
}

std::string dim_text(const DimRule& rule) { return (rule.refused ? "no: " : "") + rule.text; }

std::string ragged_text(const Op& op) {
  const NestedRule& rule = op.nested;
  if (rule.kind == NestedRule::Kind::error) return "error: " + rule.error;
  if (rule.kind == NestedRule::Kind::values || (rule.kind == NestedRule::Kind::absent && op.body == Op::Body::pointwise))
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

/// "half: self": of which inputs the scope of an Autocast makes what.
std::string autocast_text(const Op& op) {
  if (op.autocast.to == AutocastRule::To::nothing) return "";
  return (op.autocast.to == AutocastRule::To::half ? "half: " : "float32: ") + join(op.autocast.of);
}

std::array<std::string, 3> dims_of(const NestedRule& rule, bool refuses) {
  if (refuses) return {};
  switch (rule.kind) {
    case NestedRule::Kind::cpp:
      return {dim_text(rule.over[0]), dim_text(rule.over[1]), dim_text(rule.over[2])};
    case NestedRule::Kind::whole:
      return {"all", "all", "all"};
    case NestedRule::Kind::rows:
      return {"each", "each", "the last"};
    case NestedRule::Kind::segment:
      return {"by position", "yes", "yes"};
    default:
      return {"each", "each", "each"};
  }
}

}  // namespace

std::string derivatives_text(const Op& op) {
  if (op.limit.order > 0) return fmt::format("none: those of {} end at order {}", op.limit.of, op.limit.order);
  const Derivatives derivatives = derivatives_of(op);
  if (!derivatives.exist) return "none: not differentiable";
  std::string text =
      fmt::format("reverse yes   forward {}   second order {}", unless(derivatives.no_forward), unless(derivatives.no_second));
  if (!op.is_composite()) return derivatives.no_second.empty() ? text + backward_text(op) : text;
  std::set<std::string> parts;
  for (const Op* part : made_of(op)) parts.insert(part->name());
  return text + "   (made of " + join({parts.begin(), parts.end()}) + ")";
}

Facts facts_of(const Op& op) {
  const bool absent = op.nested.kind == NestedRule::Kind::absent && op.body != Op::Body::pointwise;
  return {kernels_text(op),     op.has_node() && op.limit.order == 0 ? saves_text(op) : "nothing",
          derivatives_text(op), ragged_text(op),
          autocast_text(op),    op.host,
          op.cpu_only,          dims_of(op.nested, absent || op.nested.kind == NestedRule::Kind::error)};
}

}  // namespace opgen::table
