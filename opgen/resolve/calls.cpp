#include <fmt/format.h>

#include "opgen/ir/build.h"
#include "opgen/resolve/convert.h"
#include "opgen/resolve/resolver.h"
#include "opgen/text/strings.h"

namespace opgen {

namespace {

bool is_plain_number(const Type& type) { return type.is(Base::integer) || type.is(Base::floating); }

/// Where overloads differ in the kind of a number, a literal says which it is.
void say_types(const std::vector<const Op*>& overloads, const Op& chosen, std::vector<TermPtr>& arguments) {
  const std::vector<Parameter> chosen_parameters = chosen.schema.parameters();
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Type& type = chosen_parameters[i].type;
    if (!arguments[i]->is(TermKind::literal) || !is_plain_number(type)) continue;
    for (const Op* other : overloads) {
      const std::vector<Parameter> parameters = other->schema.parameters();
      if (i >= parameters.size()) continue;
      const Type& alternative = parameters[i].type;
      if (!is_plain_number(alternative) || alternative.base == type.base) continue;
      arguments[i] = convert_to(type, arguments[i]);
      break;
    }
  }
}

}  // namespace

TermPtr Resolver::call(const ExprPtr& expr, const std::vector<ExprPtr>& args, const std::vector<std::string>& keys,
                       TermPtr first) {
  const std::string& function = expr->text;
  if (function == "wants" || function == "has_t") return wanted_or_given(expr, args);
  if (function == "where" && args.size() == 3) {
    if (!first) first = resolve(args[0]);
    if (first->type.is(Base::boolean)) return conditional(expr, first, args[1], args[2]);
  }
  if (function == "zeros_like" && args.size() == 1) {
    if (TermPtr zeros = zeros_like(expr, args[0])) return zeros;
  }
  require_known(function, expr);
  std::vector<TermPtr> values;
  for (size_t i = 0; i < args.size(); ++i) values.push_back(i == 0 && first ? first : resolve(args[i]));
  return call_op(function, expr, args, keys, values);
}

void Resolver::require_known(const std::string& function, const ExprPtr& expr) const {
  const bool helper = scope_.program.helpers.count(function) > 0;
  if (!scope_.program.has(function) && !helper) {
    std::vector<std::string> known = scope_.program.op_names();
    for (const auto& [name, ignored] : scope_.program.helpers) known.push_back(name);
    for (const char* special : {"where", "zeros_like"}) known.emplace_back(special);
    const char* what = expr->is(ExprKind::method) ? "method or function" : "function";
    throw Problem(expr->at, fmt::format("no {} named '{}'{}", what, function, did_you_mean(function, known)));
  }
}

TermPtr Resolver::call_op(const std::string& function, const ExprPtr& expr, const std::vector<ExprPtr>& args,
                          const std::vector<std::string>& keys, const std::vector<TermPtr>& values) {
  const Op* best_op = nullptr;
  const Helper* best_helper = nullptr;
  Bound best;
  std::vector<Bound> failures;
  const auto consider = [&](const Schema& schema, const Op* op, const Helper* helper) {
    Bound bound = bind_arguments(schema, expr, args, keys, values);
    if (!bound.mismatch.empty()) {
      failures.push_back(std::move(bound));
    } else if ((!best_op && !best_helper) || bound.distance < best.distance) {
      best = std::move(bound);
      best_op = op;
      best_helper = helper;
    }
  };
  for (const Op* op : scope_.program.overloads_of(function)) consider(op->schema, op, nullptr);
  if (const auto helpers = scope_.program.helpers.find(function); helpers != scope_.program.helpers.end()) {
    for (const Helper& helper : helpers->second) consider(helper.schema, nullptr, &helper);
  }
  if (!best_op && !best_helper) {
    if (failures.size() == 1) throw Problem(failures[0].mismatch_at, failures[0].mismatch);
    std::vector<std::string> types;
    for (const TermPtr& value : values) types.push_back(value->type.to_string());
    throw Problem(expr->at, fmt::format("no overload of {} takes ({}); the first one says: {}", function, join(types),
                                        failures[0].mismatch));
  }
  if (best_op) {
    say_types(scope_.program.overloads_of(function), *best_op, best.arguments);
    return call_of(*best_op, std::move(best.arguments), expr->at);
  }
  Term term;
  term.kind = TermKind::helper;
  term.helper = best_helper;
  term.type = result_type_of(best_helper->schema);
  term.arguments = std::move(best.arguments);
  term.at = expr->at;
  return std::make_shared<const Term>(std::move(term));
}

TermPtr Resolver::zeros_like(const ExprPtr& expr, const ExprPtr& tensor) {
  const Meaning* const found = known(tensor);
  if (found == nullptr || !found->type.is_tensor()) return nullptr;
  const TermPtr whole = read(found->symbol, found->type, tensor->at);
  const auto part = [&](Property asked, Symbol::How how, Type type) {
    return property(asked, {read_only(*whole, how)}, std::move(type), tensor->at);
  };
  return compound(TermKind::zeros,
                  {part(Property::sizes, Symbol::How::sizes, type_of(Base::integer, true)),
                   part(Property::dtype, Symbol::How::dtype, type_of(Base::dtype)),
                   part(Property::device, Symbol::How::device, type_of(Base::foreign))},
                  tensor_type(), expr->at);
}

TermPtr Resolver::wanted_or_given(const ExprPtr& expr, const std::vector<ExprPtr>& args) {
  if (scope_.asks != expr->text)
    throw Problem(expr->at, expr->text == "wants" ? "wants(x) exists in reverse formulas only"
                                                  : "has_t(x) exists in forward formulas only");
  if (args.size() != 1 || (!args[0]->is(ExprKind::name) && !args[0]->is(ExprKind::member)))
    throw Problem(expr->at, fmt::format("{}(x) takes the name of one input", expr->text));
  const Meaning* const record = known(args[0]);
  if (record != nullptr && !record->fields.empty()) return query_of_record(expr, *record);
  const auto found = scope_.asked.find(to_string(args[0]));
  if (found == scope_.asked.end()) {
    std::vector<std::string> known;
    for (const auto& [name, ignored] : scope_.asked) known.push_back(name);
    const std::string text = to_string(args[0]);
    throw Problem(args[0]->at, fmt::format("no tensor input is named '{}'{}", text, did_you_mean(text, known)));
  }
  return query(expr, found->second, found->first);
}

TermPtr Resolver::query(const ExprPtr& expr, size_t input, const std::string& path) const {
  Term term;
  term.kind = expr->text == "wants" ? TermKind::wants : TermKind::has_tangent;
  term.symbol = {Symbol::What::argument, input, path, Symbol::How::whole};
  term.type = type_of(Base::boolean);
  term.at = expr->at;
  return std::make_shared<const Term>(std::move(term));
}

TermPtr Resolver::query_of_record(const ExprPtr& expr, const Meaning& record) const {
  if (record.fields[0].symbol.what != Symbol::What::argument)
    throw Problem(expr->at, fmt::format("{}(x) takes the name of one input", expr->text));
  std::vector<TermPtr> answers;
  for (const Meaning& field : record.fields) {
    const auto found = scope_.asked.find(field.symbol.path);
    answers.push_back(found == scope_.asked.end() ? literal("false", type_of(Base::boolean), expr->at)
                                                  : query(expr, found->second, found->first));
  }
  return compound(TermKind::list, std::move(answers), type_of(Base::boolean, true), expr->at);
}

}  // namespace opgen
