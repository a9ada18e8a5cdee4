#include "tests/opgen/random/draw.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "tests/opgen/random/trees.h"

namespace deckle::random_entries {
namespace {

using opgen::Expr;

constexpr int kDepth = 8;
constexpr Real kLargest = 2e3;  // derivatives beyond this say little about the generator

/// DECKLE_TEST_HARD: names that generated code could use itself, and forms that few would write.
bool hard() {
  static const bool wanted = std::getenv("DECKLE_TEST_HARD") != nullptr;
  return wanted;
}

class Drawer {
 public:
  Drawer(Engine& engine, Entry& entry, const Entries& earlier) : engine_(engine), entry_(entry), earlier_(earlier) {}

  bool draw() {
    entry_.style = engine_();
    draw_arguments();
    draw_lets();
    const size_t results = entry_.pointwise() ? 1 : 1 + below(3);
    if (results == 1) {
      entry_.results = {"result"};
    } else {
      const bool odd = hard() && chance(0.4);
      const std::vector<std::string> names =
          odd ? std::vector<std::string>{"tangents", "gradient", "values"} : std::vector<std::string>{"first", "second", "third"};
      entry_.results.assign(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(results));
    }
    for (size_t i = 0; i < results; ++i)
      entry_.bodies.push_back(tensor(kDepth - (entry_.pointwise() ? 0 : 3) - static_cast<int>(below(3))));
    std::vector<ExprPtr> leaves = leaves_of(entry_);
    const bool all_read = std::all_of(leaves.begin(), leaves.end(), [&](const ExprPtr& leaf) {
      return std::any_of(entry_.bodies.begin(), entry_.bodies.end(),
                         [&](const ExprPtr& body) { return holds(inlined(entry_, body), leaf); });
    });
    if (!all_read) return false;
    for (const auto& let : entry_.lets) {
      const bool read = std::any_of(entry_.bodies.begin(), entry_.bodies.end(),
                                    [&](const ExprPtr& body) { return holds(body, name(let.first)); });
      if (!read) return false;
    }
    if (entry_.kind == Entry::Kind::written || entry_.kind == Entry::Kind::kernel) {
      // Formulas are written for what depends on each tensor, and stay of a size that a person might write.
      int64_t parts = 0;
      for (const ExprPtr& leaf : leaves) {
        bool depends = false;
        for (const ExprPtr& body : entry_.bodies) {
          const ExprPtr found = slope(inlined(entry_, body), leaf, some_tensor());
          depends = depends || found;
          if (found) parts += found->parts;
        }
        if (!depends) return false;
      }
      if (parts > 400) return false;
    }
    if (entry_.kind != Entry::Kind::composite && !third_orders_fit(leaves)) return false;
    for (const Argument& argument : entry_.arguments) {
      const bool read = std::any_of(entry_.bodies.begin(), entry_.bodies.end(),
                                    [&](const ExprPtr& body) { return holds(inlined(entry_, body), name(argument.name)); });
      if (argument.kind == Argument::Kind::mask && !read) return false;
    }
    if (entry_.pointwise()) {
      entry_.inplace = self_is_whole() && chance(0.7);
      entry_.out = chance(0.3);
    }
    return true;
  }

 private:
  size_t below(size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(engine_); }
  bool chance(double p) { return std::bernoulli_distribution(p)(engine_); }
  template <typename T>
  const T& one_of(const std::vector<T>& choices) {
    return choices[below(choices.size())];
  }
  bool restricted() const { return entry_.kind != Entry::Kind::automatic; }  // formulas of ops take less than pointwise ones
  ExprPtr some_tensor() const { return name("self"); }

  /// opgen writes derivatives to the third order, of at most 10,000 parts each.
  bool third_orders_fit(const std::vector<ExprPtr>& leaves) const {
    try {
      for (const ExprPtr& body : entry_.bodies) {
        for (const ExprPtr& leaf : leaves) {
          ExprPtr tree = inlined(entry_, body);
          for (int order = 0; order < 3 && tree; ++order) tree = slope(tree, leaf, some_tensor());
          if (tree && tree->parts > 2500) return false;
        }
      }
    } catch (const opgen::Problem&) {
      return false;  // of more parts than a tree may have
    }
    return true;
  }

  bool self_is_whole() const {
    for (const Argument& argument : entry_.arguments) {
      if (argument.kind == Argument::Kind::tensor && argument.sizes[0].size() > entry_.arguments[0].sizes[0].size()) return false;
      if (argument.kind != Argument::Kind::tensor) continue;
      const Sizes &self = entry_.arguments[0].sizes[0], &other = argument.sizes[0];
      for (size_t i = 1; i <= other.size(); ++i) {
        if (other[other.size() - i] != 1 && self[self.size() - i] == 1) return false;
      }
    }
    return true;
  }

  void draw_arguments() {
    const Sizes whole = one_of<Sizes>({{2, 3}, {4}, {3, 1}, {1, 2, 2}, {}});
    const bool broadcasts =
        entry_.kind == Entry::Kind::automatic || entry_.kind == Entry::Kind::composite || (entry_.style & 1) != 0;
    const auto sizes = [&]() -> Sizes {
      if (!broadcasts || entry_.kind == Entry::Kind::kernel || chance(0.5)) return whole;
      Sizes part = whole;
      if (!part.empty() && chance(0.5)) part.erase(part.begin());
      for (int64_t& size : part) size = chance(0.4) ? 1 : size;
      return part;
    };
    const auto add = [&](Argument::Kind kind, const std::string& argument) -> Argument& {
      entry_.arguments.push_back({});
      entry_.arguments.back().kind = kind;
      entry_.arguments.back().name = argument;
      return entry_.arguments.back();
    };
    add(Argument::Kind::tensor, "self").sizes = {sizes()};
    const size_t tensors = entry_.kind == Entry::Kind::kernel ? below(2) : below(3);
    for (size_t i = 0; i < tensors; ++i) {
      const std::string odd = i == 0
                                  ? one_of<std::string>({"exp", "grad_out", "x", "mul", "inputs", "result_tangent", "grad_self"})
                                  : one_of<std::string>({"sum_to", "d", "v", "numbers", "grad_output", "output", "t0"});
      const std::string plain = i == 0 ? "other" : "weight";
      add(Argument::Kind::tensor, hard() && chance(0.4) ? odd : plain).sizes = {sizes()};
    }
    if (!entry_.pointwise()) {
      if (chance(0.4)) {
        Argument& list = add(Argument::Kind::tensors, "parts");
        for (size_t i = 0; i < 2; ++i) list.sizes.push_back(sizes());
      }
      if (chance(0.5)) {
        Argument& optional = add(Argument::Kind::optional_tensor, "bias");
        if (chance(0.7)) optional.sizes = {sizes()};
      }
      if (chance(0.3)) {
        Argument& list = add(Argument::Kind::integers, "factors");
        list.integers = {static_cast<int64_t>(1 + below(3)), -static_cast<int64_t>(1 + below(2))};
      }
    }
    if (!restricted() && chance(0.4)) add(Argument::Kind::mask, "mask").number = static_cast<double>(below(2));
    const auto number_of = [&](Argument::Kind kind, const std::string& argument, double value) {
      Argument& added = add(kind, argument);
      added.number = value;
    };
    if (chance(0.4)) number_of(Argument::Kind::scalar, "scale", one_of<double>({2, -1.5, 0.75, 3}));
    if (chance(0.25)) number_of(Argument::Kind::floating, "shift", one_of<double>({0.5, -1.25, 1.75}));
    if (chance(0.25)) number_of(Argument::Kind::integer, "count", one_of<double>({2, 3, -2}));
    if ((!entry_.pointwise() || hard()) && chance(0.3)) number_of(Argument::Kind::boolean, "flag", below(2));
    for (auto argument = entry_.arguments.rbegin(); argument != entry_.arguments.rend(); ++argument) {
      const bool always =
          argument->holds_tensors() || argument->kind == Argument::Kind::integers || argument->kind == Argument::Kind::mask;
      if (always || !chance(0.5)) break;
      argument->by_default = true;
    }
  }

  void draw_lets() {
    const size_t lets = chance(0.35) ? 1 + below(2) : 0;
    for (size_t i = 0; i < lets; ++i) {
      const ExprPtr tree = tensor(3);
      const std::string odd = i == 0 ? "tanh" : "scope";
      entry_.lets.emplace_back(hard() && chance(0.4) ? odd : i == 0 ? "inner" : "outer", tree);
    }
  }

  ExprPtr tensor_leaf() {
    std::vector<ExprPtr> leaves;
    for (const Argument& argument : entry_.arguments) {
      if (argument.kind == Argument::Kind::tensor) leaves.push_back(name(argument.name));
      if (argument.kind == Argument::Kind::tensors) {
        for (size_t i = 0; i < argument.sizes.size(); ++i) leaves.push_back(index(argument.name, i));
      }
      if (argument.kind == Argument::Kind::optional_tensor) leaves.push_back(optional(argument));
    }
    for (const auto& [let, tree] : entry_.lets) leaves.insert(leaves.end(), 2, name(let));
    return one_of(leaves);
  }

  static ExprPtr optional(const Argument& argument) {
    const ExprPtr method = std::make_shared<Expr>(Expr::Kind::method, "defined", std::vector<ExprPtr>{name(argument.name)},
                                                  std::vector<std::string>{""}, opgen::Position{});
    return conditional(method, binary("*", name("self"), name(argument.name)), binary("+", name("self"), number(0.25)));
  }

  ExprPtr number_leaf() {
    if (hard() && entry_.kind == Entry::Kind::automatic && chance(0.2)) {
      for (const Argument& argument : entry_.arguments) {
        if (argument.kind == Argument::Kind::integer) return binary("/", name(argument.name), number(3));
      }
    }
    std::vector<ExprPtr> leaves = {number(one_of<double>({2, 3, 0.5, 1.5, 0.25, 4}))};
    for (const Argument& argument : entry_.arguments) {
      if (argument.is_number()) leaves.insert(leaves.end(), 3, name(argument.name));
      if (argument.kind == Argument::Kind::integers) leaves.push_back(index(argument.name, below(argument.integers.size())));
    }
    return one_of(leaves);
  }

  ExprPtr condition(int depth) {
    const std::string symbol = one_of<std::string>({"<", "<=", ">", ">="});
    for (const Argument& argument : entry_.arguments) {
      if (argument.kind == Argument::Kind::mask && chance(0.5)) return binary("!=", name(argument.name), number(0));
    }
    if (!restricted() && depth > 2 && chance(0.1))
      return call("where", {condition(depth - 2), condition(depth - 2), condition(depth - 2)});
    if (hard() && !restricted()) {
      if (depth > 1 && chance(0.3)) return binary(one_of<std::string>({"&&", "||"}), condition(depth - 1), condition(depth - 1));
      if (depth > 1 && chance(0.15)) return unary("!", condition(depth - 1));
      if (chance(0.2)) return binary(symbol, number(one_of<double>({0, 0.5, -0.5})), tensor(std::min(depth, 2)));
    }
    const ExprPtr right = chance(0.5) ? number(one_of<double>({0, 0.5, -0.5, 1})) : tensor(std::min(depth, 2));
    return binary(symbol, tensor(std::min(depth, 2)), right);
  }

  /// A tree that holds a tensor.
  ExprPtr tensor(int depth) {
    if (depth <= 1 || chance(0.08)) return tensor_leaf();
    const auto deeper = [&] { return tensor(depth - 1); };
    const auto positive = [&] { return binary("+", call("square", {deeper()}), number(one_of<double>({0.5, 1, 2}))); };
    const bool composite = entry_.kind == Entry::Kind::composite, kernel = entry_.kind == Entry::Kind::kernel;
    switch (below(composite ? 17 : 14)) {
      case 0:
      case 1:
        return binary(one_of<std::string>({"+", "-", "*"}), deeper(), chance(0.6) ? deeper() : number_leaf());
      case 2:
        return binary(one_of<std::string>({"+", "-", "*"}), number_leaf(), deeper());
      case 3:
        return binary("*", deeper(), deeper());
      case 4:
        return binary("/", chance(0.8) ? deeper() : number_leaf(), chance(0.6) ? positive() : deeper());
      case 5:
        return hard() ? opgen::make_expr(Expr::Kind::unary, "-", {chance(0.4) ? unary("-", deeper()) : deeper()})
                      : unary("-", deeper());
      case 6:
      case 7:
        return call(one_of<std::string>({"sin", "cos", "tanh", "sigmoid", "erf", "softplus", "log_sigmoid"}), {deeper()});
      case 8:
        return call(one_of<std::string>({"exp", "square", "expm1", "reciprocal", "abs"}), {deeper()});
      case 9:
        return call(one_of<std::string>({"log", "sqrt", "rsqrt", "log1p"}), {chance(0.7) ? positive() : deeper()});
      case 10:
        return call(one_of<std::string>({"maximum", "minimum"}),
                    {deeper(), restricted() || chance(0.7) ? deeper() : number_leaf()});
      case 11:
        if (!kernel && chance(0.3)) return conditional(condition(depth - 1), deeper(), deeper());
        return call("where", {condition(depth - 1), deeper(), chance(0.6) ? deeper() : number_leaf()});
      case 12:
        if (chance(0.4)) return call("pow", {deeper(), number(one_of<double>({2, 3}))});
        if (chance(0.5)) return call("pow", {positive(), number_leaf()});
        return call("pow", {positive(), deeper()});
      case 13: {
        for (const Argument& argument : entry_.arguments) {
          if (argument.kind == Argument::Kind::boolean && chance(0.7))
            return conditional(name(argument.name), deeper(), deeper());
        }
        if (!restricted() || entry_.kind == Entry::Kind::composite)
          return binary("+", deeper(), call(one_of<std::string>({"sign", "floor", "ceil", "round", "trunc"}), {deeper()}));
        return binary("-", deeper(), deeper());
      }
      case 14:
        return binary(one_of<std::string>({"*", "+"}), call("sum", {deeper()}), number(0.25));
      case 15:
        return call(one_of<std::string>({"silu", "relu", "gelu", "elu"}), {deeper()});
      default:
        return earlier(depth);
    }
  }

  ExprPtr earlier(int depth) {
    std::vector<const Entry*> callable;
    for (const auto& [ignored, entry] : earlier_) {
      const bool masked = std::any_of(entry->arguments.begin(), entry->arguments.end(),
                                      [](const Argument& argument) { return argument.kind == Argument::Kind::mask; });
      if (entry->kind == Entry::Kind::automatic && !masked) callable.push_back(entry);
    }
    if (callable.empty()) return call("silu", {tensor(depth - 1)});
    const Entry& chosen = *one_of(callable);
    std::vector<ExprPtr> args;
    for (const Argument& argument : chosen.arguments) {
      if (argument.by_default) break;
      args.push_back(argument.kind == Argument::Kind::tensor ? tensor(std::min(depth - 1, 2)) : number(argument.number));
    }
    return call(chosen.name, std::move(args));
  }

  Engine& engine_;
  Entry& entry_;
  const Entries& earlier_;
};

}  // namespace

std::vector<ExprPtr> leaves_of(const Entry& entry) {
  std::vector<ExprPtr> leaves;
  for (const Argument& argument : entry.arguments) {
    if (argument.kind == Argument::Kind::tensors) {
      for (size_t i = 0; i < argument.sizes.size(); ++i) leaves.push_back(index(argument.name, i));
    } else if (argument.holds_tensors() && !argument.sizes.empty()) {
      leaves.push_back(name(argument.name));
    }
  }
  return leaves;
}

std::vector<Sizes> sizes_of(const Entry& entry) {
  std::vector<Sizes> sizes;
  for (const Argument& argument : entry.arguments) sizes.insert(sizes.end(), argument.sizes.begin(), argument.sizes.end());
  return sizes;
}

std::vector<Array> draw_point(Engine& engine, const Entry& entry, const Entries& others) {
  std::normal_distribution<double> normal;
  for (int attempt = 0; attempt < 60; ++attempt) {
    std::vector<Array> point;
    for (const Sizes& sizes : sizes_of(entry)) {
      int64_t count = 1;
      for (const int64_t size : sizes) count *= size;
      Array array{sizes, {}};
      for (int64_t i = 0; i < count; ++i) {
        Jet element(static_cast<Real>(normal(engine)));
        for (const int m : {1, 2, 4}) element.part[static_cast<size_t>(m)] = static_cast<Real>(normal(engine));
        array.elements.push_back(element);
      }
      point.push_back(std::move(array));
    }
    Sight sight;
    (void)evaluate(entry, others, point, sight);
    if (sight.smooth && sight.largest < kLargest) return point;
  }
  return {};
}

namespace {

/// Whether the results change with every tensor: formulas that turn out to be 0 are refused.
bool moves_with_all(Engine& engine, const Entry& entry, const Entries& others) {
  const std::vector<Array> point = draw_point(engine, entry, others);
  for (size_t input = 0; input < point.size(); ++input) {
    std::vector<Array> moved = point;
    for (size_t i = 0; i < moved.size(); ++i) {
      for (Jet& element : moved[i].elements) element.part[1] = i == input ? 1 : 0;
    }
    Sight sight;
    bool changes = false;
    for (const Array& result : evaluate(entry, others, moved, sight)) {
      for (const Jet& element : result.elements) changes = changes || std::abs(element.part[1]) > 1e-12L;
    }
    if (!changes) return false;
  }
  return !point.empty();
}

}  // namespace

Entry draw_entry(Engine& engine, Entry::Kind kind, const std::string& name, const Entries& earlier) {
  for (int attempt = 0; attempt < 5000; ++attempt) {
    Entry entry;
    entry.kind = kind;
    entry.name = name;
    if (!Drawer(engine, entry, earlier).draw()) continue;
    const bool formulas = kind == Entry::Kind::written || kind == Entry::Kind::kernel;
    if (formulas && !moves_with_all(engine, entry, earlier)) continue;
    if (!draw_point(engine, entry, earlier).empty() && !draw_point(engine, entry, earlier).empty()) return entry;
  }
  throw std::runtime_error("no entry could be drawn");
}

}  // namespace deckle::random_entries
