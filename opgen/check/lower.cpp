#include "opgen/check/lower.h"

#include <fmt/format.h>

#include <array>

#include "opgen/check/arguments.h"
#include "opgen/check/lowerer.h"
#include "opgen/schema/dtypes.h"
#include "opgen/text.h"

namespace opgen {

Type type_of(Base base, bool list) {
  Type type;
  type.base = base;
  type.list = list;
  return type;
}

Type tensor_type(bool optional) {
  Type type = type_of(Base::tensor);
  type.optional = optional;
  return type;
}

Type result_type_of(const Schema& schema) {
  if (schema.results.empty()) return type_of(Base::none);
  if (schema.results.size() == 1) return schema.results[0].type;
  Type type = type_of(Base::tuple);
  for (const Result& result : schema.results) type.elements.push_back(result.type);
  return type;
}

using Kind = Expr::Kind;

struct Property {
  const char* name;
  const char* cpp;  // method of Tensor
  Base base;
  bool list;
  bool saved_alone;  // a node may keep just this
};

namespace {

constexpr std::array kProperties = {
    Property{"sizes", "sizes", Base::integer, true, true},
    Property{"strides", "strides", Base::integer, true, false},
    Property{"size", "size", Base::integer, false, true},
    Property{"dim", "dim", Base::integer, false, true},
    Property{"ndim", "dim", Base::integer, false, true},
    Property{"numel", "numel", Base::integer, false, true},
    Property{"dtype", "dtype", Base::dtype, false, true},
    Property{"defined", "defined", Base::boolean, false, true},
    Property{"device", "device", Base::foreign, false, true},
    Property{"is_contiguous", "is_contiguous", Base::boolean, false, false},
};

Lowered number(const ExprPtr& expr) {
  const bool whole = expr->text.find_first_of(".eE") == std::string::npos;
  return {expr->text, type_of(whole ? Base::integer : Base::floating), expr->text[0] == '-' ? 6 : 8};
}

}  // namespace

Lowered Lowerer::lower(const ExprPtr& expr) {
  switch (expr->kind) {
    case Kind::number:
      return number(expr);
    case Kind::string:
      return {quoted(expr->text), type_of(Base::string)};
    case Kind::name:
      return name(expr);
    case Kind::call:
      return call(expr, expr->args, expr->keys);
    case Kind::method:
      return method(expr);
    case Kind::unary:
      return unary(expr);
    case Kind::binary:
      return binary(expr);
    case Kind::conditional:
      return conditional(expr, expr->args[0], expr->args[1], expr->args[2]);
    case Kind::tuple:
      return tuple(expr);
    case Kind::list:
      return list(expr);
    case Kind::index:
      return index(expr);
  }
  return {};
}

const Binding& Lowerer::binding(const ExprPtr& expr) {
  const auto found = scope_.names.find(expr->text);
  if (found != scope_.names.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [name, ignored] : scope_.names) known.push_back(name);
  std::vector<std::string> all = known;
  for (const std::string& op : scope_.library.op_names()) all.push_back(op);
  std::string hint = did_you_mean(expr->text, all);
  if (hint.empty()) hint = " (in scope: " + join(known) + ")";
  throw Problem(expr->at, fmt::format("no argument, result or function named '{}'{}", expr->text, hint));
}

Lowered Lowerer::name(const ExprPtr& expr) {
  if (scope_.names.count(expr->text) == 0) {
    if (expr->text == "none") return {"std::nullopt", type_of(Base::none)};
    if (expr->text == "true" || expr->text == "false") return {expr->text, type_of(Base::boolean)};
    if (expr->text == "inf") return {"std::numeric_limits<double>::infinity()", type_of(Base::floating)};
    if (expr->text == "nan") return {"std::numeric_limits<double>::quiet_NaN()", type_of(Base::floating)};
    if (expr->text == "pi") return {"3.14159265358979323846", type_of(Base::floating)};
    if (const std::string dtype = dtype_cpp(expr->text); !dtype.empty()) return {dtype, type_of(Base::dtype)};
  }
  const Binding& found = binding(expr);
  if (!found.refuse.empty()) throw Problem(expr->at, found.refuse);
  ++scope_.uses[expr->text].whole;
  return {found.cpp, found.type};
}

Lowered Lowerer::property(const ExprPtr& expr, const Property& property) {
  const ExprPtr& object = expr->args[0];
  const size_t arguments = expr->args.size() - 1;
  const bool wants_dim = std::string_view(property.name) == "size";
  if (arguments != (wants_dim ? 1u : 0u))
    throw Problem(expr->at, wants_dim ? "size(dim) takes one dim" : fmt::format("{}() takes no arguments", property.name));
  const std::string dim = wants_dim ? lower_to(expr->args[1], type_of(Base::integer), "the dim") : "";
  const Type type = type_of(property.base, property.list);
  if (object->is(Kind::name) && scope_.names.count(object->text)) {
    const Binding& tensor = scope_.names.at(object->text);
    std::string key = property.cpp;
    if (property.saved_alone) {
      // size, dim and numel all follow from the sizes: one field serves them.
      const bool from_sizes = key == "size" || key == "dim" || key == "numel" || key == "sizes";
      scope_.uses[object->text].properties.insert(from_sizes ? "sizes" : key);
      const auto field = tensor.properties.find(from_sizes ? "sizes" : key);
      if (field != tensor.properties.end()) {
        if (key == "size") return {fmt::format("{}[wrap_dim({}, {})]", field->second, dim, field->second), type};
        if (key == "dim") return {fmt::format("static_cast<int64_t>({}.size())", field->second), type};
        if (key == "numel") return {fmt::format("numel_of({})", field->second), type};
        return {field->second, type};
      }
    } else {
      ++scope_.uses[object->text].whole;
    }
    return {fmt::format("{}.{}({})", tensor.cpp, property.cpp, dim), type};
  }
  const Lowered value = lower(object);
  return {fmt::format("{}.{}({})", wrap(value, 7), property.cpp, dim), type};
}

Type Lowerer::type_without_use(const ExprPtr& object) {
  if (object->is(Kind::name)) {
    const auto found = scope_.names.find(object->text);
    if (found != scope_.names.end()) return found->second.type;
  }
  std::map<std::string, Use> saved = scope_.uses;
  const Type type = lower(object).type;
  scope_.uses = std::move(saved);
  return type;
}

Lowered Lowerer::method(const ExprPtr& expr) {
  const Type object = type_without_use(expr->args[0]);
  if (object.is_tensor()) {
    for (const Property& candidate : kProperties) {
      if (expr->text == candidate.name) return property(expr, candidate);
    }
  }
  const auto simple = [&](const char* suffix, Type type) -> Lowered {
    if (expr->args.size() != 1) throw Problem(expr->at, fmt::format("{}() takes no arguments", expr->text));
    return {wrap(lower(expr->args[0]), 7) + suffix, std::move(type)};
  };
  if (object.list && expr->text == "size") {
    const Lowered value = simple(".size()", type_of(Base::integer));
    return {"static_cast<int64_t>(" + value.cpp + ")", value.type};
  }
  if (object.optional && !object.is_tensor_like()) {
    Type inner = object;
    inner.optional = false;
    if (expr->text == "has_value") return simple(".has_value()", type_of(Base::boolean));
    if (expr->text == "value") return simple(".value()", inner);
  }
  if (object.base == Base::ragged && !object.list) {
    if (expr->text == "components") return simple("->components()", type_of(Base::integer));
    if (expr->text == "rows") return simple("->rows()", type_of(Base::integer));
    if (expr->text == "defined") return simple(".defined()", type_of(Base::boolean));
  }
  return call(expr, expr->args, expr->keys);
}

std::string Lowerer::qualified(const std::string& function) const {
  return scope_.shadowing.count(function) ? "deckle::" + function : function;
}

Lowered Lowerer::call(const ExprPtr& expr, const std::vector<ExprPtr>& args, const std::vector<std::string>& keys) {
  const std::string& function = expr->text;
  if (function == "where" && args.size() == 3 && type_without_use(args[0]).is(Base::boolean))
    return conditional(expr, args[0], args[1], args[2]);
  if (function == "wants" || function == "has_t") return asked(expr, args);
  if (function == "zeros_like" && args.size() == 1 && args[0]->is(Kind::name)) {
    const auto tensor = scope_.names.find(args[0]->text);
    if (tensor != scope_.names.end() && tensor->second.type.is_tensor()) {
      for (const char* property : {"sizes", "dtype", "device"}) scope_.uses[args[0]->text].properties.insert(property);
      const auto& fields = tensor->second.properties;
      if (fields.count("sizes") && fields.count("dtype") && fields.count("device"))
        return {fmt::format("zeros_raw({}, {}, {})", fields.at("sizes"), fields.at("dtype"), fields.at("device")), tensor_type()};
      return {fmt::format("zeros_raw({0}.sizes(), {0}.dtype(), {0}.device())", tensor->second.cpp), tensor_type()};
    }
  }
  const std::vector<const Entry*> ops = scope_.library.named(function);
  const auto helpers = scope_.library.helpers.find(function);
  if (ops.empty() && helpers == scope_.library.helpers.end()) {
    std::vector<std::string> known = scope_.library.op_names();
    for (const auto& [name, ignored] : scope_.library.helpers) known.push_back(name);
    for (const char* special : {"where", "zeros_like"}) known.emplace_back(special);
    const char* what = expr->is(Kind::method) ? "method or function" : "function";
    throw Problem(expr->at, fmt::format("no {} named '{}'{}", what, function, did_you_mean(function, known)));
  }
  std::vector<Lowered> values;
  for (const ExprPtr& argument : args) values.push_back(lower(argument));
  const Entry* best_op = nullptr;
  const Helper* best_helper = nullptr;
  Bound best;
  std::vector<Bound> failures;
  const auto consider = [&](const Schema& schema, const Entry* op, const Helper* helper) {
    Bound bound = bind_arguments(schema, expr, args, keys, values);
    if (!bound.mismatch.empty()) {
      failures.push_back(std::move(bound));
    } else if ((!best_op && !best_helper) || bound.distance < best.distance) {
      best = std::move(bound);
      best_op = op;
      best_helper = helper;
    }
  };
  for (const Entry* op : ops) consider(op->schema, op, nullptr);
  if (helpers != scope_.library.helpers.end()) {
    for (const Helper& helper : helpers->second) consider(helper.schema, nullptr, &helper);
  }
  if (best_op) {
    scope_.calls.insert(best_op);
    return {qualified(function) + "(" + join(best.arguments) + ")", result_type_of(best_op->schema)};
  }
  if (best_helper) return {"shapes::" + function + "(" + join(best.arguments) + ")", result_type_of(best_helper->schema)};
  if (failures.size() == 1) throw Problem(failures[0].mismatch_at, failures[0].mismatch);
  std::vector<std::string> types;
  for (const Lowered& value : values) types.push_back(value.type.to_string());
  throw Problem(expr->at,
                fmt::format("no overload of {} takes ({}); the first one says: {}", function, join(types), failures[0].mismatch));
}

Lowered Lowerer::asked(const ExprPtr& expr, const std::vector<ExprPtr>& args) {
  if (!scope_.functions.count(expr->text))
    throw Problem(expr->at, expr->text == "wants" ? "wants(x) exists in reverse formulas only"
                                                  : "has_t(x) exists in forward formulas only");
  if (args.size() != 1 || !args[0]->is(Kind::name))
    throw Problem(expr->at, fmt::format("{}(x) takes the name of one input", expr->text));
  const auto found = scope_.wants.find(args[0]->text);
  if (found == scope_.wants.end()) {
    std::vector<std::string> known;
    for (const auto& [name, ignored] : scope_.wants) known.push_back(name);
    throw Problem(args[0]->at, fmt::format("no tensor input is named '{}'{}", args[0]->text, did_you_mean(args[0]->text, known)));
  }
  return {found->second, type_of(Base::boolean)};
}

std::string Lowerer::lower_to(const ExprPtr& expr, const Type& wanted, const std::string& what) {
  const Lowered value = lower(expr);
  const auto converted = convert(value, wanted);
  if (!converted)
    throw Problem(expr->at, fmt::format("{} must be {}, but '{}' is {}", what, wanted.to_string(), to_string(expr),
                                        value.type.to_string()));
  return converted->first;
}

Lowered lower(const ExprPtr& expr, Scope& scope) { return Lowerer(scope).lower(expr); }

std::string lower_to(const ExprPtr& expr, const Type& wanted, Scope& scope, const std::string& what) {
  return Lowerer(scope).lower_to(expr, wanted, what);
}

}  // namespace opgen
