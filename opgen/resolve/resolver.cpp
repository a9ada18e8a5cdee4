#include "opgen/resolve/resolver.h"

#include <fmt/format.h>

#include <array>
#include <optional>

#include "opgen/ir/build.h"
#include "opgen/resolve/convert.h"
#include "opgen/schema/dtypes.h"
#include "opgen/text/strings.h"

namespace opgen {

namespace {

struct TensorProperty {
  const char* name;
  Property property;
  Base base;
  bool list;
  std::optional<Symbol::How> how;  // what of the tensor suffices for it; none: all
};

constexpr auto kSizes = Symbol::How::sizes;
constexpr std::array kProperties = {
    TensorProperty{"sizes", Property::sizes, Base::integer, true, kSizes},
    TensorProperty{"strides", Property::strides, Base::integer, true, {}},
    TensorProperty{"size", Property::size, Base::integer, false, kSizes},
    TensorProperty{"dim", Property::dim, Base::integer, false, kSizes},
    TensorProperty{"ndim", Property::dim, Base::integer, false, kSizes},
    TensorProperty{"numel", Property::numel, Base::integer, false, kSizes},
    TensorProperty{"dtype", Property::dtype, Base::dtype, false, Symbol::How::dtype},
    TensorProperty{"defined", Property::defined, Base::boolean, false, Symbol::How::defined},
    TensorProperty{"device", Property::device, Base::foreign, false, Symbol::How::device},
    TensorProperty{"is_contiguous", Property::is_contiguous, Base::boolean, false, {}},
};

/// Which field of a record `x.q` is.
size_t field_of(const RecordType& record, const ExprPtr& expr) {
  std::vector<std::string> names;
  for (const Argument& field : record.fields) names.push_back(field.name);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == expr->text) return i;
  }
  const std::string hint = did_you_mean(expr->text, names);
  throw Problem(expr->at, fmt::format("{} has no field '{}'{}", record.name, expr->text,
                                      hint.empty() ? " (it has " + join(names) + ")" : hint));
}

TermPtr number(const ExprPtr& expr) {
  const bool whole = expr->text.find_first_of(".eE") == std::string::npos;
  return literal(expr->text, type_of(whole ? Base::integer : Base::floating), expr->at);
}

}  // namespace

TermPtr Resolver::resolve(const ExprPtr& expr) {
  switch (expr->kind) {
    case ExprKind::number:
      return number(expr);
    case ExprKind::string:
      return literal(expr->text, type_of(Base::string), expr->at);
    case ExprKind::name:
      return name(expr);
    case ExprKind::call:
      return call(expr, expr->args, expr->keys);
    case ExprKind::method:
      return method(expr);
    case ExprKind::member:
      return member(expr);
    case ExprKind::unary:
      return unary(expr);
    case ExprKind::binary:
      return binary(expr);
    case ExprKind::conditional:
      return conditional(expr, resolve(expr->args[0]), expr->args[1], expr->args[2]);
    case ExprKind::tuple:
      return tuple(expr);
    case ExprKind::list:
      return list(expr);
    case ExprKind::index:
      return index(expr);
  }
  return nullptr;
}

TermPtr Resolver::resolve_to(const ExprPtr& expr, const Type& wanted, const std::string& what) {
  const TermPtr value = resolve(expr);
  const auto converted = convert(value, wanted);
  if (!converted)
    throw Problem(expr->at, fmt::format("{} must be {}, but '{}' is {}", what, wanted.to_string(), to_string(expr),
                                        value->type.to_string()));
  return converted->first;
}

Block Resolver::resolve_body(const Formula& formula) {
  Block body;
  for (const auto& [name, expression] : formula.lets) {
    const TermPtr value = resolve(expression);
    scope_.names[name] = {value->type, {Symbol::What::let, body.lets.size(), name, Symbol::How::whole}, "", {}};
    body.lets.push_back({name, value});
  }
  body.value = resolve(formula.body);
  return body;
}

const Meaning& Resolver::meaning(const ExprPtr& expr) const {
  const auto found = scope_.names.find(expr->text);
  if (found != scope_.names.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [name, ignored] : scope_.names) known.push_back(name);
  std::vector<std::string> all = known;
  for (const std::string& op : scope_.program.op_names()) all.push_back(op);
  for (const auto& [type, ignored] : scope_.program.types) all.push_back(type);
  std::string hint = did_you_mean(expr->text, all);
  if (hint.empty()) hint = " (in scope: " + join(known) + ")";
  throw Problem(expr->at, fmt::format("no argument, result or function named '{}'{}", expr->text, hint));
}

TermPtr Resolver::name(const ExprPtr& expr) {
  const std::string& text = expr->text;
  if (scope_.names.count(text) == 0) {
    if (text == "none") return literal(text, type_of(Base::none), expr->at);
    if (text == "true" || text == "false") return literal(text, type_of(Base::boolean), expr->at);
    if (text == "inf" || text == "nan" || text == "pi") return literal(text, type_of(Base::floating), expr->at);
    if (!dtype_cpp(text).empty()) return literal(text, type_of(Base::dtype), expr->at);
  }
  return value_of(meaning(expr), expr->at);
}

const Meaning* Resolver::known(const ExprPtr& expr) const {
  if (expr->is(ExprKind::name)) {
    const auto found = scope_.names.find(expr->text);
    return found == scope_.names.end() ? nullptr : &found->second;
  }
  if (!expr->is(ExprKind::member)) return nullptr;
  const Meaning* const record = known(expr->args[0]);
  if (record == nullptr || record->type.base != Base::record || record->fields.empty()) return nullptr;
  return &record->fields[field_of(*record->type.record, expr)];
}

TermPtr Resolver::value_of(const Meaning& meaning, const Position& at) const {
  if (!meaning.refuse.empty()) throw Problem(at, meaning.refuse);
  if (meaning.fields.empty()) return read(meaning.symbol, meaning.type, at);
  std::vector<TermPtr> fields;
  for (const Meaning& field : meaning.fields) fields.push_back(value_of(field, at));
  return compound(TermKind::record, std::move(fields), meaning.type, at);
}

TermPtr Resolver::object_of(const ExprPtr& expr) {
  const Meaning* const found = known(expr);
  if (found != nullptr && found->fields.empty() && found->symbol.what == Symbol::What::argument)
    return read(found->symbol, found->type, expr->at);
  return resolve(expr);
}

TermPtr Resolver::method(const ExprPtr& expr) {
  const TermPtr object = object_of(expr->args[0]);
  const Type& type = object->type;
  if (TermPtr found = asked_property(expr, object)) return found;
  const auto simple = [&](Property asked, Type result) {
    if (expr->args.size() != 1) throw Problem(expr->at, fmt::format("{}() takes no arguments", expr->text));
    return property(asked, {object}, std::move(result), expr->at);
  };
  if (type.list && expr->text == "size") return simple(Property::length, type_of(Base::integer));
  if (type.optional && !type.is_tensor_like()) {
    Type inner = type;
    inner.optional = false;
    if (expr->text == "has_value") return simple(Property::has_value, type_of(Base::boolean));
    if (expr->text == "value") return simple(Property::value, inner);
  }
  if (type.base == Base::ragged && !type.list) {
    if (expr->text == "components") return simple(Property::components, type_of(Base::integer));
    if (expr->text == "rows") return simple(Property::rows, type_of(Base::integer));
    if (expr->text == "defined") return simple(Property::defined, type_of(Base::boolean));
  }
  const Meaning* const whole = known(expr->args[0]);
  return call(expr, expr->args, expr->keys, whole ? value_of(*whole, expr->args[0]->at) : object);
}

TermPtr Resolver::member(const ExprPtr& expr) {
  const ExprPtr& object = expr->args[0];
  const auto declared = object->is(ExprKind::name) ? scope_.program.types.find(object->text) : scope_.program.types.end();
  if (declared != scope_.program.types.end() && declared->second.is(Base::enumeration))
    return literal(enum_value(*declared->second.enumeration, expr->text, expr->at), declared->second, expr->at);
  if (const Meaning* const field = known(expr)) return value_of(*field, expr->at);
  const TermPtr record = resolve(object);
  if (record->type.base == Base::record) {
    const size_t position = field_of(*record->type.record, expr);
    return element(record, position, record->type.record->fields[position].type, expr->at);
  }
  throw Problem(expr->at, fmt::format("expected '(' after '.{}': properties are written as calls", expr->text));
}

TermPtr Resolver::asked_property(const ExprPtr& expr, const TermPtr& object) {
  if (object->type.is(Base::scalar) && expr->text == "dtype" && expr->args.size() == 1)
    return property(Property::dtype, {object}, type_of(Base::dtype), expr->at);
  if (!object->type.is_tensor()) return nullptr;
  for (const TensorProperty& candidate : kProperties) {
    if (expr->text != candidate.name) continue;
    const bool wants_dim = candidate.property == Property::size;
    if (expr->args.size() - 1 != (wants_dim ? 1u : 0u))
      throw Problem(expr->at, wants_dim ? "size(dim) takes one dim" : fmt::format("{}() takes no arguments", candidate.name));
    std::vector<TermPtr> arguments = {object->is(TermKind::read) && object->symbol.how == Symbol::How::whole && candidate.how
                                          ? read_only(*object, *candidate.how)
                                          : object};
    if (wants_dim) arguments.push_back(resolve_to(expr->args[1], type_of(Base::integer), "the dim"));
    return property(candidate.property, std::move(arguments), type_of(candidate.base, candidate.list), expr->at);
  }
  return nullptr;
}

}  // namespace opgen
