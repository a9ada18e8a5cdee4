#include "opgen/resolve/convert.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/ir/build.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

/// The type without its '?'.
Type one_of(Type type) {
  type.optional = false;
  return type;
}

/// The default of an argument, as a term.
TermPtr default_of(const Argument& argument, const Position& at) {
  const Type& type = argument.type;
  if (!argument.default_value || *argument.default_value == "None")
    return convert_to(type, literal("none", type_of(Base::none), at));
  const std::string& text = *argument.default_value;
  if (text[0] == '[') {
    std::vector<TermPtr> elements;
    Type element = type_of(type.base == Base::scalar ? Base::floating : type.base);
    const std::string inside = text.substr(1, text.size() - 2);
    for (size_t at_character = 0; at_character < inside.size();) {
      const size_t comma = std::min(inside.find(',', at_character), inside.size());
      const size_t first = inside.find_first_not_of(' ', at_character);
      elements.push_back(literal(inside.substr(first, comma - first), element, at));
      at_character = comma + 1;
    }
    return convert_to(type, compound(TermKind::list, std::move(elements), type_of(element.base, true), at));
  }
  if (text == "True" || text == "False") {
    const TermPtr value = literal(text == "True" ? "true" : "false", type_of(Base::boolean), at);
    return type.is(Base::boolean) ? value : convert_to(type, value);
  }
  if (text[0] == '\'' || text[0] == '"') return literal(text.substr(1, text.size() - 2), type_of(Base::string), at);
  const bool whole = text.find_first_of(".eE") == std::string::npos;
  if (type.list) return convert_to(type, literal(text, type_of(Base::integer), at));
  if (type.is(Base::floating) && whole) return literal(text + ".0", type_of(Base::floating), at);
  if (type.is(Base::scalar)) return convert_to(type, literal(text, type_of(whole ? Base::integer : Base::floating), at));
  if (type.base == Base::enumeration) return literal(text, one_of(type), at);
  return literal(text, type_of(type.base), at);
}

bool may_be_left_out(const Schema& schema, const Parameter& parameter) {
  if (parameter.is_record()) return false;
  const Argument& argument = schema.arguments[parameter.first];
  return argument.default_value || (argument.type.optional && argument.type.is_tensor());
}

}  // namespace

const std::string& enum_value(const EnumType& type, const std::string& value, const Position& at) {
  if (type.has(value)) return value;
  const std::string hint = did_you_mean(value, type.values);
  throw Problem(
      at, fmt::format("'{}' has no value '{}'{}", type.name, value, hint.empty() ? " (it has " + join(type.values) + ")" : hint));
}

TermPtr plain_number(const TermPtr& value) {
  return value->type.is(Base::scalar) ? convert_to(type_of(Base::floating), value) : value;
}

std::optional<std::pair<TermPtr, int>> convert(const TermPtr& value, const Type& wanted) {
  const Type& type = value->type;
  const auto converted = [&](int distance) { return std::pair{convert_to(wanted, value), distance}; };
  if (type.base == Base::none && !type.list) return wanted.optional ? std::optional(converted(0)) : std::nullopt;
  const bool written_out = value->is(TermKind::list);
  if (written_out && wanted.list && wanted.length > 0 && value->arguments.size() != static_cast<size_t>(wanted.length))
    return std::nullopt;
  if (type.list && type.base == Base::none && wanted.list) return converted(1);
  if (type.base == wanted.base && type.list == wanted.list && type.base != Base::tuple &&
      type.enumeration == wanted.enumeration && type.record == wanted.record) {
    // No dims stand for all of them wherever dims may be left out.
    if (type.optional && !wanted.optional && type.is_list_of(Base::integer)) return converted(2);
    if (type.optional && !wanted.optional && !type.is_tensor() && type.base != Base::generator) return std::nullopt;
    const int distance = type.optional != wanted.optional ? 1 : 0;
    return written_out || (distance > 0 && !type.is_tensor()) ? converted(distance) : std::pair{value, distance};
  }
  const auto same_record = [](const Type& a, const Type& b) { return a.record == b.record; };
  if (type.base == Base::tuple && wanted.base == Base::tuple && type.elements.size() == wanted.elements.size() &&
      std::equal(type.elements.begin(), type.elements.end(), wanted.elements.begin(), same_record))
    return std::pair{value, 0};
  if (type.list || type.optional) {
    // Integers that are written out serve where numbers of another kind are wanted.
    const bool numbers = wanted.base == Base::floating || wanted.base == Base::scalar;
    if (type.list && wanted.list && type.base == Base::integer && numbers && written_out) return converted(2);
    return std::nullopt;
  }
  const bool number = type.base == Base::integer || type.base == Base::floating;
  if (!wanted.list) {
    if (type.base == Base::integer && wanted.base == Base::floating) return converted(1);
    if ((number || type.base == Base::boolean) && wanted.base == Base::scalar) return converted(1);
    if (type.base == Base::scalar && wanted.base == Base::floating) return converted(2);
    return std::nullopt;
  }
  if (type.base == Base::integer && wanted.base == Base::integer) return converted(2);
  return std::nullopt;
}

Bound bind_arguments(const Schema& schema, const ExprPtr& expr, const std::vector<ExprPtr>& args,
                     const std::vector<std::string>& keys, const std::vector<TermPtr>& values) {
  Bound bound;
  const std::vector<Parameter> parameters = schema.parameters();
  std::vector<int> given(parameters.size(), -1);
  for (size_t i = 0; i < args.size(); ++i) {
    size_t target = i;
    if (!keys[i].empty()) {
      target = parameters.size();
      std::vector<std::string> names;
      for (size_t j = 0; j < parameters.size(); ++j) {
        names.push_back(parameters[j].name);
        if (parameters[j].name == keys[i]) target = j;
      }
      if (target == parameters.size()) {
        bound.mismatch = fmt::format("{} has no argument named '{}'{}", schema.name, keys[i], did_you_mean(keys[i], names));
        bound.mismatch_at = args[i]->at;
        return bound;
      }
    }
    if (target >= parameters.size()) {
      bound.mismatch = fmt::format("{} takes {} argument(s), not {}", schema.name, parameters.size(), args.size());
      bound.mismatch_at = expr->at;
      return bound;
    }
    if (given[target] >= 0) {
      bound.mismatch = fmt::format("'{}' is given twice", parameters[target].name);
      bound.mismatch_at = args[i]->at;
      return bound;
    }
    given[target] = static_cast<int>(i);
  }
  int last = -1;
  for (size_t j = 0; j < parameters.size(); ++j) {
    if (given[j] >= 0)
      last = static_cast<int>(j);
    else if (!may_be_left_out(schema, parameters[j])) {
      bound.mismatch = fmt::format("{} wants {} argument(s): '{}' ({}) is missing", schema.name, parameters.size(),
                                   parameters[j].name, parameters[j].type.to_string());
      bound.mismatch_at = expr->at;
      return bound;
    }
  }
  for (int j = 0; j <= last; ++j) {
    const Parameter& argument = parameters[static_cast<size_t>(j)];
    if (given[j] < 0) {
      bound.arguments.push_back(default_of(schema.arguments[argument.first], expr->at));
      continue;
    }
    const auto converted = convert(values[given[j]], argument.type);
    if (!converted) {
      bound.mismatch = fmt::format("argument '{}' of {} wants {}, but '{}' is {}", argument.name, schema.name,
                                   argument.type.to_string(), to_string(args[given[j]]), values[given[j]]->type.to_string());
      bound.mismatch_at = args[given[j]]->at;
      if (argument.type.is(Base::enumeration))
        bound.mismatch += fmt::format(" (write {}.{})", argument.type.enumeration->name, argument.type.enumeration->values[0]);
      return bound;
    }
    bound.arguments.push_back(converted->first);
    bound.distance += converted->second;
  }
  return bound;
}

}  // namespace opgen
