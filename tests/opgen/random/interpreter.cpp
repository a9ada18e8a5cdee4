#include "tests/opgen/random/interpreter.h"

#include <algorithm>
#include <functional>
#include <stdexcept>

namespace deckle::random_entries {
namespace {

using opgen::Expr;
using Kind = Expr::Kind;

/// The step of the differences is below a thousandth of this.
constexpr Real kMargin = 0.02;

struct Value {
  enum class Kind { none, number, boolean, tensor, tensors, integers };
  Kind kind = Kind::none;
  Real number = 0;  // bool: 0 or 1
  Array tensor;
  std::vector<Array> tensors;
  std::vector<int64_t> integers;

  static Value of(Real number, Kind kind = Kind::number) {
    Value value;
    value.kind = kind;
    value.number = number;
    return value;
  }
  static Value of(Array tensor) {
    Value value;
    value.kind = Kind::tensor;
    value.tensor = std::move(tensor);
    return value;
  }
};

int64_t count(const Sizes& sizes) {
  int64_t product = 1;
  for (const int64_t size : sizes) product *= size;
  return product;
}

Sizes broadcast(const Sizes& a, const Sizes& b) {
  Sizes sizes(std::max(a.size(), b.size()), 1);
  for (const Sizes* each : {&a, &b}) {
    for (size_t i = 0; i < each->size(); ++i) {
      int64_t& size = sizes[sizes.size() - each->size() + i];
      if ((*each)[i] != 1) size = (*each)[i];
    }
  }
  return sizes;
}

/// The position in a tensor of `sizes` of the element that stands at `position` of its broadcast to `to`.
int64_t source_of(int64_t position, const Sizes& to, const Sizes& sizes) {
  int64_t source = 0, stride = 1;
  for (size_t i = 1; i <= to.size(); ++i) {
    const int64_t at = position % to[to.size() - i];
    position /= to[to.size() - i];
    if (i > sizes.size()) continue;
    if (sizes[sizes.size() - i] != 1) source += at * stride;
    stride *= sizes[sizes.size() - i];
  }
  return source;
}

class Interpreter {
 public:
  Interpreter(const Entries& others, Sight& sight) : others_(others), sight_(sight) {}

  std::map<std::string, Value> names;

  Value value(const ExprPtr& expr) {
    switch (expr->kind) {
      case Kind::number:
        return Value::of(std::stold(expr->text));
      case Kind::name: {
        const auto found = names.find(expr->text);
        if (found != names.end()) return found->second;
        if (expr->text == "pi") return Value::of(std::acos(Real(-1)));
        if (expr->text == "true" || expr->text == "false") return Value::of(expr->text == "true", Value::Kind::boolean);
        break;
      }
      case Kind::list: {
        Value list;
        list.kind = Value::Kind::integers;
        for (const ExprPtr& element : expr->args) list.integers.push_back(static_cast<int64_t>(value(element).number));
        return list;
      }
      case Kind::unary: {
        const Value operand = value(expr->args[0]);
        if (expr->text == "-") return map({operand}, [](const Jet* x) { return -x[0]; });
        return map({operand}, [](const Jet* x) { return Jet(x[0].value() == 0 ? 1 : 0); });
      }
      case Kind::binary:
        return binary(expr->text, value(expr->args[0]), value(expr->args[1]));
      case Kind::conditional:
        return choose(value(expr->args[0]), expr->args[1], expr->args[2]);
      case Kind::index: {
        const Value list = value(expr->args[0]);
        const auto position = static_cast<size_t>(value(expr->args[1]).number);
        if (list.kind == Value::Kind::tensors) return Value::of(list.tensors.at(position));
        return Value::of(static_cast<Real>(list.integers.at(position)));
      }
      case Kind::method:
        if (expr->text == "defined")
          return Value::of(value(expr->args[0]).kind != Value::Kind::none ? 1 : 0, Value::Kind::boolean);
        return call(expr);
      case Kind::call:
        return call(expr);
      default:
        break;
    }
    throw std::runtime_error("the interpreter does not know " + opgen::to_string(expr));
  }

 private:
  void near(Real distance, const Jet& x) {
    Real slopes = 0;
    for (const int m : {1, 2, 4}) slopes += std::abs(x.part[m]);
    if (!(std::abs(distance) > kMargin * (1 + slopes / 4))) sight_.smooth = false;
  }

  /// Element by element, broadcast; numbers if all are numbers.
  Value map(const std::vector<Value>& operands, const std::function<Jet(const Jet*)>& f) {
    Sizes sizes;
    bool tensor = false;
    for (const Value& operand : operands) {
      if (operand.kind == Value::Kind::tensor) sizes = broadcast(sizes, operand.tensor.sizes);
      tensor = tensor || operand.kind == Value::Kind::tensor;
      if (operand.kind != Value::Kind::tensor && operand.kind != Value::Kind::number && operand.kind != Value::Kind::boolean)
        throw std::runtime_error("an operand is neither a tensor nor a number");
    }
    Array result{sizes, std::vector<Jet>(static_cast<size_t>(count(sizes)))};
    std::vector<Jet> x(operands.size());
    for (int64_t i = 0; i < count(sizes); ++i) {
      for (size_t k = 0; k < operands.size(); ++k) {
        const Value& operand = operands[k];
        x[k] = operand.kind == Value::Kind::tensor
                   ? operand.tensor.elements[static_cast<size_t>(source_of(i, sizes, operand.tensor.sizes))]
                   : Jet(operand.number);
      }
      Jet& y = result.elements[static_cast<size_t>(i)] = f(x.data());
      for (const Real part : y.part) {
        if (!std::isfinite(part)) sight_.smooth = false;
        sight_.largest = std::max(sight_.largest, std::abs(part));
      }
    }
    return tensor ? Value::of(std::move(result)) : Value::of(result.elements[0].value());
  }

  /// `exact`: what is compared does not change with any input, as masks and bools.
  Value compare(const Value& a, const Value& b, const std::function<bool(Real, Real)>& holds, bool exact = false) {
    return map({a, b}, [&](const Jet* x) {
      if (!exact) near(x[0].value() - x[1].value(), x[0] - x[1]);
      return Jet(holds(x[0].value(), x[1].value()) ? 1 : 0);
    });
  }

  Value binary(const std::string& symbol, const Value& a, const Value& b) {
    if (symbol == "+") return map({a, b}, [](const Jet* x) { return x[0] + x[1]; });
    if (symbol == "-") return map({a, b}, [](const Jet* x) { return x[0] - x[1]; });
    if (symbol == "*") return map({a, b}, [](const Jet* x) { return x[0] * x[1]; });
    if (symbol == "/") {
      return map({a, b}, [&](const Jet* x) {
        near(x[1].value(), x[1]);
        return x[0] / x[1];
      });
    }
    if (symbol == "<") return compare(a, b, std::less<>());
    if (symbol == "<=") return compare(a, b, std::less_equal<>());
    if (symbol == ">") return compare(a, b, std::greater<>());
    if (symbol == ">=") return compare(a, b, std::greater_equal<>());
    if (symbol == "==") return compare(a, b, std::equal_to<>(), true);
    if (symbol == "!=") return compare(a, b, std::not_equal_to<>(), true);
    if (symbol == "&&") return map({a, b}, [](const Jet* x) { return Jet(x[0].value() != 0 && x[1].value() != 0 ? 1 : 0); });
    if (symbol == "||") return map({a, b}, [](const Jet* x) { return Jet(x[0].value() != 0 || x[1].value() != 0 ? 1 : 0); });
    throw std::runtime_error("the interpreter does not know " + symbol);
  }

  Value choose(const Value& condition, const ExprPtr& yes, const ExprPtr& no) {
    if (condition.kind != Value::Kind::tensor) return value(condition.number != 0 ? yes : no);
    return map({condition, value(yes), value(no)}, [](const Jet* x) { return x[0].value() != 0 ? x[1] : x[2]; });
  }

  /// The jet's value lies in no kink of a step function whose steps are at whole numbers plus `shift`.
  void off_steps(const Jet& x, Real shift) {
    const Real v = x.value() - shift;
    near(v - std::round(v), x);
  }

  Value call(const ExprPtr& expr) {
    const std::string& f = expr->text;
    if (f == "where") return choose(value(expr->args[0]), expr->args[1], expr->args[2]);
    std::vector<Value> args;
    for (const ExprPtr& argument : expr->args) args.push_back(value(argument));
    if (const auto other = others_.find(f); other != others_.end()) return entry(*other->second, args);
    const auto unary = [&](Jet (*g)(const Jet&)) { return map({args[0]}, [g](const Jet* x) { return g(x[0]); }); };
    const auto positive = [&](Real shift, const std::function<Jet(const Jet&)>& g) {
      return map({args[0]}, [&](const Jet* x) {
        near(x[0].value() + shift, x[0]);
        if (x[0].value() + shift <= 0) sight_.smooth = false;
        return g(x[0]);
      });
    };
    const auto steps = [&](Real shift, Real (*g)(Real)) {
      return map({args[0]}, [&](const Jet* x) {
        off_steps(x[0], shift);
        return Jet(g(x[0].value()));
      });
    };
    const auto kinked = [&](const std::function<Jet(const Jet&)>& g) {
      return map({args[0]}, [&](const Jet* x) {
        near(x[0].value(), x[0]);
        return g(x[0]);
      });
    };
    const Real ln2 = std::log(Real(2)), ln10 = std::log(Real(10));
    if (f == "exp") return unary(exp);
    if (f == "sin") return unary(sin);
    if (f == "cos") return unary(cos);
    if (f == "tanh") return unary(tanh);
    if (f == "sigmoid") return unary(sigmoid);
    if (f == "softplus") return unary(softplus);
    if (f == "erf") return unary(erf);
    if (f == "erfc") return unary([](const Jet& x) { return Jet(1) - erf(x); });
    if (f == "log_sigmoid") return unary([](const Jet& x) { return -softplus(-x); });
    if (f == "silu") return unary([](const Jet& x) { return x * sigmoid(x); });
    if (f == "gelu") return unary([](const Jet& x) { return x * Jet(0.5) * (Jet(1) + erf(x * Jet(std::sqrt(Real(0.5))))); });
    if (f == "square") return unary([](const Jet& x) { return x * x; });
    if (f == "expm1") return unary([](const Jet& x) { return exp(x) - Jet(1); });
    if (f == "exp2") return unary([](const Jet& x) { return exp(x * Jet(std::log(Real(2)))); });
    if (f == "neg") return unary([](const Jet& x) { return -x; });
    if (f == "log") return positive(0, [](const Jet& x) { return log(x); });
    if (f == "log2") return positive(0, [&](const Jet& x) { return log(x) / Jet(ln2); });
    if (f == "log10") return positive(0, [&](const Jet& x) { return log(x) / Jet(ln10); });
    if (f == "log1p") return positive(1, [](const Jet& x) { return log1p(x); });
    if (f == "sqrt") return positive(0, [](const Jet& x) { return power(x, Real(0.5)); });
    if (f == "rsqrt") return positive(0, [](const Jet& x) { return power(x, Real(-0.5)); });
    if (f == "reciprocal") return kinked([](const Jet& x) { return power(x, Real(-1)); });
    if (f == "abs") return kinked([](const Jet& x) { return x.value() < 0 ? -x : x; });
    if (f == "sign") return kinked([](const Jet& x) { return Jet(x.value() < 0 ? -1 : 1); });
    if (f == "relu") return kinked([](const Jet& x) { return x.value() < 0 ? Jet(0) : x; });
    if (f == "elu") return kinked([](const Jet& x) { return x.value() < 0 ? exp(x) - Jet(1) : x; });
    if (f == "floor") return steps(0, [](Real x) { return std::floor(x); });
    if (f == "ceil") return steps(0, [](Real x) { return std::ceil(x); });
    if (f == "trunc") return steps(0, [](Real x) { return std::trunc(x); });
    if (f == "round") return steps(0.5, [](Real x) { return std::nearbyint(x); });
    if (f == "maximum" || f == "minimum") {
      return map({args[0], args[1]}, [&](const Jet* x) {
        near(x[0].value() - x[1].value(), x[0] - x[1]);
        return (x[0].value() > x[1].value()) == (f == "maximum") ? x[0] : x[1];
      });
    }
    if (f == "pow") {
      const bool whole = args[1].kind == Value::Kind::number && args[1].number == std::round(args[1].number);
      return map({args[0], args[1]}, [&](const Jet* x) {
        near(x[0].value(), x[0]);
        if (!whole && x[0].value() <= 0) sight_.smooth = false;
        return power(x[0], x[1]);
      });
    }
    if (f == "sum") return sum(args);
    throw std::runtime_error("the interpreter does not know " + f);
  }

  /// sum(x), or sum(x, [dim], true).
  static Value sum(const std::vector<Value>& args) {
    const Array& x = args[0].tensor;
    Sizes sizes;
    if (args.size() > 1) {
      sizes = x.sizes;
      sizes[static_cast<size_t>(args[1].integers.at(0))] = 1;
    }
    Array result{sizes, std::vector<Jet>(static_cast<size_t>(count(sizes)))};
    for (int64_t i = 0; i < count(x.sizes); ++i) {
      Jet& into = result.elements[args.size() > 1 ? static_cast<size_t>(source_of(i, x.sizes, sizes)) : 0];
      into = into + x.elements[static_cast<size_t>(i)];
    }
    return Value::of(std::move(result));
  }

  Value entry(const Entry& called, const std::vector<Value>& args) {
    Interpreter inner(others_, sight_);
    for (size_t i = 0; i < called.arguments.size(); ++i) {
      const Argument& argument = called.arguments[i];
      inner.names[argument.name] =
          i < args.size()
              ? args[i]
              : Value::of(argument.number, argument.kind == Argument::Kind::boolean ? Value::Kind::boolean : Value::Kind::number);
    }
    for (const auto& [name, tree] : called.lets) inner.names[name] = inner.value(tree);
    return inner.value(called.bodies[0]);
  }

  const Entries& others_;
  Sight& sight_;

  friend std::vector<Array> random_entries::evaluate(const Entry&, const Entries&, const std::vector<Array>&, Sight&);
};

}  // namespace

std::vector<Array> evaluate(const Entry& entry, const Entries& others, const std::vector<Array>& inputs, Sight& sight) {
  Interpreter interpreter(others, sight);
  size_t next = 0;
  for (const Argument& argument : entry.arguments) {
    Value value;
    switch (argument.kind) {
      case Argument::Kind::tensor:
        value = Value::of(inputs.at(next++));
        break;
      case Argument::Kind::optional_tensor:
        if (!argument.sizes.empty()) value = Value::of(inputs.at(next++));
        break;
      case Argument::Kind::tensors:
        value.kind = Value::Kind::tensors;
        for (size_t i = 0; i < argument.sizes.size(); ++i) value.tensors.push_back(inputs.at(next++));
        break;
      case Argument::Kind::integers:
        value.kind = Value::Kind::integers;
        value.integers = argument.integers;
        break;
      case Argument::Kind::boolean:
        value = Value::of(argument.number, Value::Kind::boolean);
        break;
      case Argument::Kind::mask:
        value = Value::of(Array{{}, {Jet(argument.number)}});
        break;
      default:
        value = Value::of(argument.number);
    }
    interpreter.names[argument.name] = value;
  }
  for (const auto& [name, tree] : entry.lets) interpreter.names[name] = interpreter.value(tree);
  std::vector<Array> results;
  for (const ExprPtr& body : entry.bodies) {
    const Value result = interpreter.value(body);
    if (result.kind != Value::Kind::tensor) throw std::runtime_error("a result is no tensor");
    results.push_back(result.tensor);
  }
  return results;
}

}  // namespace deckle::random_entries
