#include "opgen/check/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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

namespace {

using Kind = Expr::Kind;

struct Property {
  const char* name;
  const char* cpp;  // method of Tensor
  Base base;
  bool list;
  bool saved_alone;  // a node may keep just this
};
constexpr std::array kProperties = {
    Property{"sizes", "sizes", Base::integer, true, true},      Property{"strides", "strides", Base::integer, true, false},
    Property{"size", "size", Base::integer, false, true},       Property{"dim", "dim", Base::integer, false, true},
    Property{"ndim", "dim", Base::integer, false, true},        Property{"numel", "numel", Base::integer, false, true},
    Property{"dtype", "dtype", Base::dtype, false, true},       Property{"defined", "defined", Base::boolean, false, true},
    Property{"device", "device", Base::foreign, false, true},   Property{"is_contiguous", "is_contiguous", Base::boolean, false, false},
};

std::string double_literal(const std::string& text) {
  return text.find_first_of(".eE") == std::string::npos ? text + ".0" : text;
}

class Lowerer {
 public:
  explicit Lowerer(Scope& scope) : scope_(scope) {}

  Lowered lower(const ExprPtr& expr) {
    switch (expr->kind) {
      case Kind::number: return number(expr);
      case Kind::string: return {quoted(expr->text), type_of(Base::string)};
      case Kind::name: return name(expr);
      case Kind::call: return call(expr, expr->args, expr->keys);
      case Kind::method: return method(expr);
      case Kind::unary: return unary(expr);
      case Kind::binary: return binary(expr);
      case Kind::conditional: return conditional(expr, expr->args[0], expr->args[1], expr->args[2]);
      case Kind::tuple: return tuple(expr);
      case Kind::list: return list(expr);
      case Kind::index: return index(expr);
    }
    return {};
  }

  /// The C++ of `value` as an argument of type `wanted`, and how far the types are apart; nullopt if they do not fit.
  std::optional<std::pair<std::string, int>> convert(const Lowered& value, const Type& wanted) const {
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
      if (type.optional && !wanted.optional && type.is_list_of(Base::integer)) return std::pair{"launch::dims_or_none(" + value.cpp + ")", 2};
      if (type.optional && !wanted.optional && !type.is_tensor() && type.base != Base::generator) return std::nullopt;
      const bool literal = value.cpp.size() > 1 && value.cpp[0] == '{';
      return std::pair{literal ? list_literal(value.cpp, wanted) : value.cpp, type.optional != wanted.optional ? 1 : 0};
    }
    if (type.base == Base::tuple && wanted.base == Base::tuple && type.elements.size() == wanted.elements.size())
      return std::pair{value.cpp, 0};
    if (type.list || type.optional) {
      // A literal of integers serves where numbers of another kind are wanted.
      if (type.list && wanted.list && type.base == Base::integer && (wanted.base == Base::floating || wanted.base == Base::scalar) && value.cpp[0] == '{')
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
    if (type.base == Base::integer && wanted.base == Base::integer) return std::pair{list_literal("{" + value.cpp + "}", wanted), 2};
    return std::nullopt;
  }

 private:
  static std::string wrap(const Lowered& value, int at_least) {
    return value.precedence < at_least ? "(" + value.cpp + ")" : value.cpp;
  }

  /// An operand of arithmetic on numbers.
  static std::string plain(const Lowered& value, int at_least) {
    return value.type.is(Base::scalar) ? wrap(value, 7) + ".to_double()" : wrap(value, at_least);
  }

  static std::string list_literal(const std::string& braces, const Type& wanted) {
    if (wanted.base == Base::tensor) return "TensorList" + braces;
    if (wanted.base == Base::integer) return "Ints" + braces;
    return braces;
  }

  Lowered number(const ExprPtr& expr) {
    const bool whole = expr->text.find_first_of(".eE") == std::string::npos;
    return {expr->text, type_of(whole ? Base::integer : Base::floating), expr->text[0] == '-' ? 6 : 8};
  }

  const Binding& binding(const ExprPtr& expr) {
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

  Lowered name(const ExprPtr& expr) {
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

  Lowered property(const ExprPtr& expr, const Property& property) {
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

  Type type_without_use(const ExprPtr& object) {
    if (object->is(Kind::name)) {
      const auto found = scope_.names.find(object->text);
      if (found != scope_.names.end()) return found->second.type;
    }
    std::map<std::string, Use> saved = scope_.uses;
    const Type type = lower(object).type;
    scope_.uses = std::move(saved);
    return type;
  }

  Lowered method(const ExprPtr& expr) {
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

  std::string qualified(const std::string& function) const {
    return scope_.shadowing.count(function) ? "deckle::" + function : function;
  }

  struct Bound {
    std::vector<std::string> arguments;
    int distance = 0;
    std::string mismatch;  // not "": why it does not fit
    Position mismatch_at;
  };

  Bound bind(const Schema& schema, const ExprPtr& expr, const std::vector<ExprPtr>& args, const std::vector<std::string>& keys,
             const std::vector<Lowered>& values) const {
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
      if (given[j] >= 0) last = static_cast<int>(j);
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
        bound.mismatch = fmt::format("argument '{}' of {} wants {}, but '{}' is {}", argument.name, schema.name, argument.type.to_string(),
                                     to_string(args[given[j]]), values[given[j]].type.to_string());
        bound.mismatch_at = args[given[j]]->at;
        return bound;
      }
      bound.arguments.push_back(converted->first);
      bound.distance += converted->second;
    }
    return bound;
  }

  static std::string default_cpp(const Argument& argument);

  Lowered call(const ExprPtr& expr, const std::vector<ExprPtr>& args, const std::vector<std::string>& keys) {
    const std::string& function = expr->text;
    if (function == "where" && args.size() == 3 && type_without_use(args[0]).is(Base::boolean)) return conditional(expr, args[0], args[1], args[2]);
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
      Bound bound = bind(schema, expr, args, keys, values);
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
    throw Problem(expr->at, fmt::format("no overload of {} takes ({}); the first one says: {}", function, join(types), failures[0].mismatch));
  }

  Lowered asked(const ExprPtr& expr, const std::vector<ExprPtr>& args) {
    if (!scope_.functions.count(expr->text))
      throw Problem(expr->at, expr->text == "wants" ? "wants(x) exists in reverse formulas only" : "has_t(x) exists in forward formulas only");
    if (args.size() != 1 || !args[0]->is(Kind::name)) throw Problem(expr->at, fmt::format("{}(x) takes the name of one input", expr->text));
    const auto found = scope_.wants.find(args[0]->text);
    if (found == scope_.wants.end()) {
      std::vector<std::string> known;
      for (const auto& [name, ignored] : scope_.wants) known.push_back(name);
      throw Problem(args[0]->at, fmt::format("no tensor input is named '{}'{}", args[0]->text, did_you_mean(args[0]->text, known)));
    }
    return {found->second, type_of(Base::boolean)};
  }

  Lowered unary(const ExprPtr& expr) {
    const Lowered operand = lower(expr->args[0]);
    if (expr->text == "!") {
      if (!operand.type.is(Base::boolean)) throw Problem(expr->at, fmt::format("'!' wants a bool, not {}", operand.type.to_string()));
      return {"!" + wrap(operand, 6), type_of(Base::boolean), 6};
    }
    if (operand.type.is_tensor()) {
      require_op("neg", expr);
      return {"-" + wrap(operand, 6), tensor_type(), 6};
    }
    if (operand.type.is(Base::scalar)) return {"-" + wrap(operand, 7) + ".to_double()", type_of(Base::floating), 6};
    if (!operand.type.is_number()) throw Problem(expr->at, fmt::format("'-' wants a number or a tensor, not {}", operand.type.to_string()));
    return {"-" + wrap(operand, 6), operand.type, 6};
  }

  void require_op(const std::string& op, const ExprPtr& expr) {
    const std::vector<const Entry*> found = scope_.library.named(op);
    if (found.empty()) throw Problem(expr->at, fmt::format("'{}' on tensors is the op '{}', which has no entry", expr->text, op));
    scope_.calls.insert(found[0]);
  }

  Lowered binary(const ExprPtr& expr) {
    static const std::map<std::string, std::string> kArithmetic = {{"+", "add"}, {"-", "sub"}, {"*", "mul"}, {"/", "div"}};
    static const std::map<std::string, std::string> kComparison = {{"==", "eq"}, {"!=", "ne"}, {"<", "lt"}, {"<=", "le"}, {">", "gt"}, {">=", "ge"}};
    const ExprPtr &left = expr->args[0], &right = expr->args[1];
    // x == none asks whether an optional argument is there.
    if ((expr->text == "==" || expr->text == "!=") && right->is_name("none")) {
      const Lowered value = lower(left);
      const std::string there = wrap(value, 7) + (value.type.is_tensor_like() ? ".defined()" : ".has_value()");
      return {expr->text == "==" ? "!" + there : there, type_of(Base::boolean), 6};
    }
    const Lowered a = lower(left), b = lower(right);
    const int strength = precedence(*expr);
    const std::string infix = wrap(a, strength) + " " + expr->text + " " + wrap(b, strength + 1);
    const auto operand = [](const Type& type) { return type.is_tensor() || type.is_number(); };
    const auto mismatch = [&](const char* what) -> Problem {
      return {expr->at, fmt::format("'{}' wants {}, not {} and {}", expr->text, what, a.type.to_string(), b.type.to_string())};
    };
    if (const auto op = kArithmetic.find(expr->text); op != kArithmetic.end()) {
      if (!operand(a.type) || !operand(b.type)) throw mismatch("tensors or numbers");
      if (a.type.is_tensor() || b.type.is_tensor()) {
        require_op(op->second, expr);
        return {infix, tensor_type(), strength};
      }
      const bool whole = a.type.is(Base::integer) && b.type.is(Base::integer);
      return {plain(a, strength) + " " + expr->text + " " + plain(b, strength + 1), type_of(whole ? Base::integer : Base::floating), strength};
    }
    if (expr->text == "%") {
      if (!a.type.is(Base::integer) || !b.type.is(Base::integer)) throw mismatch("integers");
      return {infix, type_of(Base::integer), strength};
    }
    if (const auto op = kComparison.find(expr->text); op != kComparison.end()) {
      if (a.type.is_tensor() || b.type.is_tensor()) {
        if (!operand(a.type) || !operand(b.type)) throw mismatch("tensors or numbers");
        if (!a.type.is_tensor()) throw Problem(expr->at, "a comparison of a number with a tensor has the tensor on its left");
        const ExprPtr as_call = make_expr(Kind::call, op->second, {left, right}, expr->at);
        return call(as_call, as_call->args, as_call->keys);
      }
      if (a.type.is_number() && b.type.is_number()) {
        return {plain(a, strength) + " " + expr->text + " " + plain(b, strength + 1), type_of(Base::boolean), strength};
      }
      const bool equality = expr->text == "==" || expr->text == "!=";
      if (!equality || a.type.base != b.type.base || a.type.list != b.type.list) throw mismatch("two values of one type");
      if (a.type.list && a.type.base == Base::integer) {
        const auto as_ints = [](const Lowered& value) { return value.cpp[0] == '{' ? "Ints" + value.cpp : "Ints(" + value.cpp + ")"; };
        const std::string same = as_ints(a) + " == " + as_ints(b);
        return {expr->text == "==" ? same : "!(" + same + ")", type_of(Base::boolean), expr->text == "==" ? 3 : 6};
      }
      return {infix, type_of(Base::boolean), strength};
    }
    if (!a.type.is(Base::boolean) || !b.type.is(Base::boolean)) throw mismatch("two bools");
    // GCC wants parentheses around && inside ||.
    const auto grouped = [&](const Lowered& value) { return expr->text == "||" && value.precedence == 2 ? "(" + value.cpp + ")" : wrap(value, strength); };
    return {grouped(a) + " " + expr->text + " " + grouped(b), type_of(Base::boolean), strength};
  }

  Lowered conditional(const ExprPtr& expr, const ExprPtr& condition, const ExprPtr& yes, const ExprPtr& no) {
    const Lowered c = lower(condition);
    if (c.type.is_tensor()) {
      const ExprPtr as_call = make_expr(Kind::call, "where", {condition, yes, no}, expr->at);
      return call(as_call, as_call->args, as_call->keys);
    }
    if (!c.type.is(Base::boolean)) throw Problem(condition->at, fmt::format("a condition is a bool or a Tensor, not {}", c.type.to_string()));
    Lowered a = lower(yes), b = lower(no);
    Type type = a.type.base == Base::none ? b.type : a.type;
    if (a.type.is(Base::integer) && b.type.is(Base::floating)) type = b.type;
    const auto other = convert(a.type.base == Base::none || type == b.type ? a : b, type.is_tensor() ? tensor_type(true) : type);
    if (!other) throw Problem(expr->at, fmt::format("the two values of a condition differ in type: {} and {}", a.type.to_string(), b.type.to_string()));
    if (a.type.base == Base::none) a.cpp = other->first;
    if (b.type.base == Base::none) b.cpp = other->first;
    for (Lowered* value : {&a, &b}) {
      if (value->cpp[0] == '{') value->cpp = list_literal(value->cpp, type);
    }
    return {fmt::format("{} ? {} : {}", wrap(c, 1), wrap(a, 1), b.cpp), type, 0};
  }

  Lowered tuple(const ExprPtr& expr) {
    Lowered result{"", type_of(Base::tuple)};
    std::vector<std::string> parts;
    for (const ExprPtr& element : expr->args) {
      Lowered value = lower(element);
      if (value.type.base == Base::none) value = {"Tensor()", tensor_type(true)};
      parts.push_back(value.cpp);
      result.type.elements.push_back(value.type);
    }
    result.cpp = "std::tuple(" + join(parts) + ")";
    return result;
  }

  Lowered list(const ExprPtr& expr) {
    Type type = type_of(Base::none, true);
    std::vector<std::string> parts;
    for (const ExprPtr& element : expr->args) {
      const Lowered value = lower(element);
      if (value.type.list || value.type.base == Base::tuple) throw Problem(element->at, "lists of lists do not exist");
      if (type.base == Base::none) type.base = value.type.base;
      else if (type.base == Base::integer && value.type.base == Base::floating) type.base = Base::floating;
      else if (type.base != value.type.base && !(type.base == Base::floating && value.type.base == Base::integer))
        throw Problem(element->at, fmt::format("the elements of a list differ in type: {} and {}", type_of(type.base).to_string(), value.type.to_string()));
      parts.push_back(value.cpp);
    }
    return {"{" + join(parts) + "}", type};
  }

  Lowered index(const ExprPtr& expr) {
    const Lowered object = lower(expr->args[0]);
    if (object.type.base == Base::tuple) {
      const ExprPtr& position = expr->args[1];
      const std::optional<int64_t> i = position->is(Kind::number) ? whole_number(position->text) : std::nullopt;
      const int64_t count = static_cast<int64_t>(object.type.elements.size());
      if (!i || *i < 0 || *i >= count) throw Problem(position->at, fmt::format("the tuple is indexed by a number from 0 to {}", count - 1));
      return {fmt::format("std::get<{}>({})", *i, object.cpp), object.type.elements[static_cast<size_t>(*i)]};
    }
    if (!object.type.list) throw Problem(expr->at, fmt::format("{} cannot be indexed; lists and tuples can", object.type.to_string()));
    const std::string position = lower_to(expr->args[1], type_of(Base::integer), "the index");
    Type type = object.type;
    type.list = false;
    type.length = 0;
    return {fmt::format("{}[{}]", wrap(object, 7), position), type};
  }

 public:
  std::string lower_to(const ExprPtr& expr, const Type& wanted, const std::string& what) {
    const Lowered value = lower(expr);
    const auto converted = convert(value, wanted);
    if (!converted) throw Problem(expr->at, fmt::format("{} must be {}, but '{}' is {}", what, wanted.to_string(), to_string(expr), value.type.to_string()));
    return converted->first;
  }

 private:
  Scope& scope_;
};

std::string Lowerer::default_cpp(const Argument& argument) {
  const std::string& text = *argument.default_value;
  if (text == "None") return argument.type.base == Base::generator ? "nullptr" : argument.type.is_tensor() ? "Tensor()" : "std::nullopt";
  if (text == "True") return "true";
  if (text == "False") return "false";
  if (text[0] == '[') return list_literal("{" + text.substr(1, text.size() - 2) + "}", argument.type);
  if (text[0] == '\'') return quoted(text.substr(1, text.size() - 2));
  if (argument.type.is(Base::floating)) return double_literal(text);
  if (argument.type.is(Base::dtype)) return dtype_cpp(text);
  return text;
}

}  // namespace

Lowered lower(const ExprPtr& expr, Scope& scope) { return Lowerer(scope).lower(expr); }

std::string lower_to(const ExprPtr& expr, const Type& wanted, Scope& scope, const std::string& what) {
  return Lowerer(scope).lower_to(expr, wanted, what);
}

}  // namespace opgen
