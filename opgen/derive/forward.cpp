#include "opgen/derive/forward.h"

#include <fmt/format.h>

#include "opgen/text/strings.h"

namespace opgen {

void expand_forward(Entry& entry) {
  for (WrittenRule& rule : entry.forward) {
    if (rule.kind == WrittenRule::Kind::auto_linear) {
      if (rule.keys.size() != entry.schema.results.size())
        throw Problem(rule.at, fmt::format("auto_linear covers all results at once: write '{}' as the key", [&] {
                        std::vector<std::string> names;
                        for (size_t i = 0; i < entry.schema.results.size(); ++i) names.push_back(entry.result_name(i));
                        return join(names);
                      }()));
      std::vector<ExprPtr> args;
      for (const Parameter& parameter : entry.schema.parameters()) {
        const Argument& argument = entry.schema.arguments[parameter.first];
        std::string text = parameter.name;
        if (parameter.is_record()) {
          text += "_t";
        } else if (argument.type.is_tensor_like()) {
          const WrittenRule* reverse = entry.reverse_rule(argument.name);
          text += reverse && reverse->kind == WrittenRule::Kind::non_differentiable ? "_p" : "_t";
        }
        args.push_back(make_expr(ExprKind::name, text, {}, rule.at));
      }
      rule.formula = {{}, make_expr(ExprKind::call, entry.name(), args, rule.at)};
      entry.linear = true;
      rule.kind = WrittenRule::Kind::formula;
    } else if (rule.kind == WrittenRule::Kind::auto_element_wise) {
      const WrittenRule* only = nullptr;
      for (const WrittenRule& reverse : entry.reverse) {
        if (reverse.kind == WrittenRule::Kind::non_differentiable) continue;
        if (only || reverse.keys.size() != 1) throw Problem(rule.at, "auto_element_wise wants exactly one differentiable input");
        only = &reverse;
      }
      if (!only || entry.schema.results.size() != 1)
        throw Problem(rule.at, "auto_element_wise wants one differentiable input and one result");
      const std::string tangent = only->keys[0] + "_t";
      rule.formula.body = rewrite(inline_lets(only->formula), [&](const ExprPtr& node) -> ExprPtr {
        if (node->is_name("grad")) return make_expr(ExprKind::name, tangent, {}, node->at);
        if (node->is(ExprKind::name)) {
          const Argument* argument = entry.schema.find(node->text);
          if (argument && argument->type.is_tensor_like()) return make_expr(ExprKind::name, node->text + "_p", {}, node->at);
        }
        return nullptr;
      });
      entry.element_wise = true;
      rule.kind = WrittenRule::Kind::formula;
    }
  }
}

}  // namespace opgen
