#include "opgen/check/arguments.h"

#include <fmt/format.h>

#include "opgen/schema/dtypes.h"
#include "opgen/text.h"

namespace opgen {
namespace {

std::string double_literal(const std::string& text) {
  return text.find_first_of(".eE") == std::string::npos ? text + ".0" : text;
}

std::string default_cpp(const Argument& argument) {
  const std::string& text = *argument.default_value;
  if (text == "None")
    return argument.type.base == Base::generator ? "nullptr" : argument.type.is_tensor() ? "Tensor()" : "std::nullopt";
  if (text == "True") return "true";
  if (text == "False") return "false";
  if (text[0] == '[') return list_literal("{" + text.substr(1, text.size() - 2) + "}", argument.type);
  if (text[0] == '\'') return quoted(text.substr(1, text.size() - 2));
  if (argument.type.is(Base::floating)) return double_literal(text);
  if (argument.type.is(Base::dtype)) return dtype_cpp(text);
  return text;
}

}  // namespace

std::string wrap(const Lowered& value, int at_least) { return value.precedence < at_least ? "(" + value.cpp + ")" : value.cpp; }

std::string plain(const Lowered& value, int at_least) {
  return value.type.is(Base::scalar) ? wrap(value, 7) + ".to_double()" : wrap(value, at_least);
}

std::string list_literal(const std::string& braces, const Type& wanted) {
  if (wanted.base == Base::tensor) return "TensorList" + braces;
  if (wanted.base == Base::integer) return "Ints" + braces;
  return braces;
}

std::optional<std::pair<std::string, int>> convert(const Lowered& value, const Type& wanted) {
  const Type& type = value.type;
  if (type.base == Base::none && !type.list) {
    if (!wanted.optional && !(wanted.is_tensor())) return std::nullopt;
    if (wanted.is_tensor() && wanted.optional) return std::pair{std::string("Tensor()"), 0};
    if (wanted.base == Base::generator) return std::pair{std::string("nullptr"), 0};
    if (wanted.optional) return std::pair{std::string("std::nullopt"), 0};
    return std::nullopt;
  }
  if (type.list && type.base == Base::none && wanted.list) return std::pair{list_literal(value.cpp, wanted), 1};
  if (type.base == wanted.base && type.list == wanted.list && type.base != Base::tuple) {
    // No dims stand for all of them wherever dims may be left out.
    if (type.optional && !wanted.optional && type.is_list_of(Base::integer))
      return std::pair{"launch::dims_or_none(" + value.cpp + ")", 2};
    if (type.optional && !wanted.optional && !type.is_tensor() && type.base != Base::generator) return std::nullopt;
    const bool literal = value.cpp.size() > 1 && value.cpp[0] == '{';
    return std::pair{literal ? list_literal(value.cpp, wanted) : value.cpp, type.optional != wanted.optional ? 1 : 0};
  }
  if (type.base == Base::tuple && wanted.base == Base::tuple && type.elements.size() == wanted.elements.size())
    return std::pair{value.cpp, 0};
  if (type.list || type.optional) {
    // A literal of integers serves where numbers of another kind are wanted.
    if (type.list && wanted.list && type.base == Base::integer &&
        (wanted.base == Base::floating || wanted.base == Base::scalar) && value.cpp[0] == '{')
      return std::pair{list_literal(value.cpp, wanted), 2};
    return std::nullopt;
  }
  const bool number = type.base == Base::integer || type.base == Base::floating;
  if (!wanted.list) {
    if (type.base == Base::integer && wanted.base == Base::floating) return std::pair{value.cpp, 1};
    if ((number || type.base == Base::boolean) && wanted.base == Base::scalar) return std::pair{value.cpp, 1};
    if (type.base == Base::scalar && wanted.base == Base::floating) return std::pair{wrap(value, 8) + ".to_double()", 2};
    return std::nullopt;
  }
  if (type.base == Base::integer && wanted.base == Base::integer)
    return std::pair{list_literal("{" + value.cpp + "}", wanted), 2};
  return std::nullopt;
}

Bound bind_arguments(const Schema& schema, const ExprPtr& expr, const std::vector<ExprPtr>& args,
                     const std::vector<std::string>& keys, const std::vector<Lowered>& values) {
  Bound bound;
  std::vector<int> given(schema.arguments.size(), -1);
  for (size_t i = 0; i < args.size(); ++i) {
    size_t target = i;
    if (!keys[i].empty()) {
      target = schema.arguments.size();
      std::vector<std::string> names;
      for (size_t j = 0; j < schema.arguments.size(); ++j) {
        names.push_back(schema.arguments[j].name);
        if (schema.arguments[j].name == keys[i]) target = j;
      }
      if (target == schema.arguments.size()) {
        bound.mismatch = fmt::format("{} has no argument named '{}'{}", schema.name, keys[i], did_you_mean(keys[i], names));
        bound.mismatch_at = args[i]->at;
        return bound;
      }
    }
    if (target >= schema.arguments.size()) {
      bound.mismatch = fmt::format("{} takes {} argument(s), not {}", schema.name, schema.arguments.size(), args.size());
      bound.mismatch_at = expr->at;
      return bound;
    }
    if (given[target] >= 0) {
      bound.mismatch = fmt::format("'{}' is given twice", schema.arguments[target].name);
      bound.mismatch_at = args[i]->at;
      return bound;
    }
    given[target] = static_cast<int>(i);
  }
  int last = -1;
  for (size_t j = 0; j < schema.arguments.size(); ++j) {
    if (given[j] >= 0)
      last = static_cast<int>(j);
    else if (!schema.arguments[j].default_value && !(schema.arguments[j].type.optional && schema.arguments[j].type.is_tensor())) {
      bound.mismatch = fmt::format("{} wants {} argument(s): '{}' ({}) is missing", schema.name, schema.arguments.size(),
                                   schema.arguments[j].name, schema.arguments[j].type.to_string());
      bound.mismatch_at = expr->at;
      return bound;
    }
  }
  for (int j = 0; j <= last; ++j) {
    const Argument& argument = schema.arguments[static_cast<size_t>(j)];
    if (given[j] < 0) {
      bound.arguments.push_back(argument.default_value ? default_cpp(argument) : "Tensor()");
      continue;
    }
    const auto converted = convert(values[given[j]], argument.type);
    if (!converted) {
      bound.mismatch = fmt::format("argument '{}' of {} wants {}, but '{}' is {}", argument.name, schema.name,
                                   argument.type.to_string(), to_string(args[given[j]]), values[given[j]].type.to_string());
      bound.mismatch_at = args[given[j]]->at;
      return bound;
    }
    bound.arguments.push_back(converted->first);
    bound.distance += converted->second;
  }
  return bound;
}

}  // namespace opgen
