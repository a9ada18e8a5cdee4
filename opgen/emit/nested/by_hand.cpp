#include "opgen/emit/nested/by_hand.h"

#include <fmt/format.h>

#include <vector>

#include "opgen/text/strings.h"

namespace opgen::nested {

std::string over_comment(const Op& op) {
  std::string lines;
  for (size_t kind = 0; kind < kDimKinds.size(); ++kind) {
    const DimRule& rule = op.nested.over[kind];
    lines += fmt::format("/// {}: {}{}\n", kDimKinds[kind], rule.refused ? "no: " : "", rule.text);
  }
  return lines;
}

std::string require_rows(const std::string& first) { return fmt::format("nested::require_regular_dim({});\n", first); }

std::string refusals(const Op& op, const std::string& first) {
  std::vector<std::string> reasons;
  for (size_t kind = 0; kind < kDimKinds.size(); ++kind) {
    if (op.nested.over[kind].refused)
      reasons.push_back(fmt::format(".{} = {}", kDimKinds[kind], quote(op.nested.over[kind].text)));
  }
  std::string lines = op.nested.rows ? require_rows(first) : "";
  if (reasons.empty()) return lines;
  for (const Argument& argument : op.schema.arguments) {
    if (!is_dim(argument)) continue;
    lines += fmt::format("nested::{}({}, {}, {{{}}});\n", argument.name == op.nested.inserts ? "refuse_new_dim" : "refuse_dim",
                         argument.name, first, join(reasons));
  }
  return lines;
}

}  // namespace opgen::nested
