#include "tests/opgen/random/write.h"

#include <fmt/format.h>

#include <random>
#include <stdexcept>

#include "tests/opgen/random/draw.h"
#include "tests/opgen/random/trees.h"

namespace deckle::random_entries {
namespace {

using opgen::Expr;
using opgen::to_string;
using AKind = Argument::Kind;

std::string value_of(const Argument& argument) {
  if (argument.kind == AKind::boolean) return argument.number != 0 ? "True" : "False";
  return fmt::format("{}", argument.number);
}

std::string parameter(const Argument& argument) {
  static const std::map<AKind, std::string> kTypes = {
      {AKind::tensor, "Tensor"}, {AKind::optional_tensor, "Tensor?"}, {AKind::tensors, "Tensor[]"},
      {AKind::scalar, "Scalar"}, {AKind::floating, "float"},          {AKind::integer, "int"},
      {AKind::boolean, "bool"},  {AKind::integers, "int[]"},          {AKind::mask, "Tensor"}};
  const std::string text = kTypes.at(argument.kind) + " " + argument.name;
  return argument.by_default ? text + "=" + value_of(argument) : text;
}

std::string sample_of(const Argument& argument) {
  if (argument.is_number()) return value_of(argument);
  if (argument.kind == AKind::boolean) return argument.number != 0 ? "true" : "false";
  if (argument.kind == AKind::integers) return fmt::format("[{}]", fmt::join(argument.integers, ", "));
  if (argument.kind == AKind::mask) return fmt::format("{{values: [{}], dtype: bool}}", argument.number);
  std::vector<std::string> parts;
  for (const Sizes& sizes : argument.sizes) parts.push_back(fmt::format("[{}]", fmt::join(sizes, ", ")));
  return argument.kind == AKind::tensors ? fmt::format("[{}]", fmt::join(parts, ", ")) : parts.at(0);
}

std::string in_quotes(const std::string& formula) { return '"' + formula + '"'; }

std::string with_lets(const Lets& lets, const std::string& body) {
  if (lets.empty()) return body;
  std::vector<std::string> texts;
  for (const auto& [name, tree] : lets) texts.push_back(fmt::format("{} = {}", name, to_string(tree)));
  return fmt::format("let {} in {}", fmt::join(texts, ", "), body);
}

/// The formulas of an entry, in one of several ways that mean the same.
class Formulas {
 public:
  explicit Formulas(const Entry& entry) : entry_(entry), engine_(entry.style) {}

  std::string text() {
    std::string lines;
    const bool pointwise = entry_.pointwise();
    fused_ = pointwise && coin();
    const bool element_wise = reverse(lines);
    if (fused_ && coin()) return lines;  // the tangents follow from the fused gradients
    forward(lines, element_wise);
    return lines;
  }

 private:
  bool coin() { return (engine_() & 1) != 0; }

  std::vector<const Argument*> tensors() const {
    std::vector<const Argument*> found;
    for (const Argument& argument : entry_.arguments) {
      if (argument.holds_tensors()) found.push_back(&argument);
    }
    return found;
  }
  ExprPtr slope_of(size_t result, const ExprPtr& leaf) const {
    return slope(inlined(entry_, entry_.bodies[result]), leaf, name("self"));
  }
  std::string incoming(size_t result) {
    if (entry_.results.size() == 1) return "grad";
    if (coin()) return "grad_" + entry_.results[result];
    return fmt::format("grads[{}]", result);
  }

  /// The gradient for a leaf: the sum over results of the incoming gradient times the slope.
  ExprPtr gradient(const ExprPtr& leaf) {
    ExprPtr sum;
    for (size_t result = 0; result < entry_.bodies.size(); ++result) {
      ExprPtr factor = slope_of(result, leaf);
      if (!factor) continue;
      if (!fused_ || coin()) factor = replace(factor, inlined(entry_, entry_.bodies[result]), name(entry_.results[result]));
      const ExprPtr grad = name(incoming(result));  // an index prints like a name
      const ExprPtr term = coin() ? binary("*", grad, factor) : binary("*", factor, grad);
      sum = sum ? binary("+", sum, term) : term;
    }
    return sum ? sum : binary("*", number(0), name("self"));
  }

  std::string reverse_of(const Argument& argument) {
    if (argument.kind == AKind::tensors) {
      std::vector<std::string> parts;
      for (size_t i = 0; i < argument.sizes.size(); ++i) parts.push_back(to_string(gradient(index(argument.name, i))));
      return fmt::format("[{}]", fmt::join(parts, ", "));
    }
    if (argument.kind == AKind::optional_tensor && argument.sizes.empty()) {
      // Written as if it might be given.
      return fmt::format("{0}.defined() ? {1} * {0} : none", argument.name, incoming(0));
    }
    std::string text = to_string(gradient(name(argument.name)));
    if (entry_.pointwise() && !fused_) text = fmt::format("sum_to({}, {}.sizes())", text, argument.name);
    return text;
  }

  /// Whether the formula may stand for the tangent: one input, one result.
  bool reverse(std::string& lines) {
    const std::vector<const Argument*> inputs = tensors();
    std::vector<std::string> texts;
    for (const Argument* input : inputs) texts.push_back(reverse_of(*input));
    bool lists = false;
    for (const Argument* input : inputs) lists = lists || input->kind == AKind::tensors;
    if (!fused_ && inputs.size() > 1 && !lists && coin()) {
      std::vector<std::string> keys, parts;
      for (size_t i = 0; i < inputs.size(); ++i) {
        keys.push_back(inputs[i]->name);
        parts.push_back(coin() && inputs[i]->kind == AKind::tensor ? fmt::format("wants({}) ? {} : none", keys[i], texts[i])
                                                                   : texts[i]);
      }
      lines += fmt::format("    {}: {}\n", fmt::join(keys, ", "), in_quotes(fmt::format("({})", fmt::join(parts, ", "))));
      return false;
    }
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i]->kind == AKind::tensor && coin())
        texts[i] = fmt::format("let change_{0} = {1} in change_{0}", inputs[i]->name, texts[i]);
      lines += fmt::format("    {}: {}\n", inputs[i]->name, in_quotes(texts[i]));
    }
    return inputs.size() == 1 && entry_.bodies.size() == 1 && inputs[0]->kind == AKind::tensor && !fused_ && !entry_.pointwise();
  }

  ExprPtr primals(ExprPtr tree) const {
    for (const Argument* argument : tensors()) tree = replace(tree, name(argument->name), name(argument->name + "_p"));
    return tree;
  }

  void forward(std::string& lines, bool element_wise) {
    if (element_wise && coin()) {
      lines += "    result: auto_element_wise\n";
      return;
    }
    std::vector<std::string> texts;
    for (size_t result = 0; result < entry_.bodies.size(); ++result) texts.push_back(tangent(result));
    if (texts.size() > 1 && coin()) {
      lines +=
          fmt::format("    {}: {}\n", fmt::join(entry_.results, ", "), in_quotes(fmt::format("({})", fmt::join(texts, ", "))));
      return;
    }
    for (size_t result = 0; result < texts.size(); ++result) {
      if (coin()) texts[result] = fmt::format("let moved_{0} = {1} in moved_{0} * 1", entry_.results[result], texts[result]);
      lines += fmt::format("    {}: {}\n", entry_.results[result], in_quotes(texts[result]));
    }
  }

  std::string tangent(size_t result) {
    ExprPtr sum;
    // A tangent that lacks an input may lack its shape: a term without tangents that has the shape of the result.
    if (entry_.pointwise()) sum = binary("*", number(0), name(entry_.results[result]));
    for (const ExprPtr& leaf : leaves_of(entry_)) {
      const ExprPtr factor = slope_of(result, leaf);
      if (!factor) continue;
      const ExprPtr whole = leaf->is(Expr::Kind::index) ? leaf->args[0] : leaf;
      const ExprPtr t = replace(leaf, whole, name(whole->text + "_t"));
      ExprPtr term = binary("*", t, primals(factor));
      if (!leaf->is(Expr::Kind::index) && coin()) {
        const ExprPtr zero = binary("*", number(0), name(entry_.results[result]));
        term = conditional(call("has_t", {whole}), term, zero);
      }
      sum = sum ? binary("+", sum, term) : term;
    }
    for (const Argument& argument : entry_.arguments) {  // as if it might be given
      if (result > 0 || argument.kind != AKind::optional_tensor || !argument.sizes.empty()) continue;
      const ExprPtr zero = binary("*", number(0), name(entry_.results[result]));
      const ExprPtr term = conditional(call("has_t", {name(argument.name)}),
                                       binary("*", name(argument.name + "_t"), name(argument.name + "_p")), zero);
      sum = sum ? binary("+", sum, term) : term;
    }
    return to_string(sum ? sum : binary("*", number(0), name("self_p")));
  }

  const Entry& entry_;
  std::mt19937_64 engine_;
  bool fused_ = false;
};

/// An expression of an element i, in C++.
std::string cpp(const ExprPtr& tree) {
  std::vector<std::string> args;
  if (!tree->is(Expr::Kind::method) && !tree->is(Expr::Kind::index)) {
    for (const ExprPtr& part : tree->args) args.push_back(cpp(part));
  }
  switch (tree->kind) {
    case Expr::Kind::number:
      return fmt::format("double({})", tree->text);
    case Expr::Kind::name:
      return tree->text + "_at(i)";
    case Expr::Kind::index:
      return fmt::format("{}_at(i, {})", tree->args[0]->text, tree->args[1]->text);
    case Expr::Kind::method:
      return tree->args[0]->text + ".defined";
    case Expr::Kind::unary:
      return fmt::format("({}({}))", tree->text, args[0]);
    case Expr::Kind::binary:
      return fmt::format("({} {} {})", args[0], tree->text, args[1]);
    case Expr::Kind::conditional:
      return fmt::format("({} ? {} : {})", args[0], args[1], args[2]);
    case Expr::Kind::call:
      if (tree->text == "where") return fmt::format("({} ? {} : {})", args[0], args[1], args[2]);
      return fmt::format("suite::reference::{}({})", tree->text, fmt::join(args, ", "));
    default:
      throw std::runtime_error("no C++ for " + to_string(tree));
  }
}

}  // namespace

std::string yaml_of(const Entry& entry) {
  std::vector<std::string> parameters, samples, results;
  for (const Argument& argument : entry.arguments) {
    parameters.push_back(parameter(argument));
    if (!(argument.kind == AKind::optional_tensor && argument.sizes.empty()))
      samples.push_back(argument.name + ": " + sample_of(argument));
    else
      parameters.back() += "=None";
  }
  for (const std::string& result : entry.results) results.push_back("Tensor " + result);
  // An argument with a default is followed by others with one.
  bool defaults = false;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Argument& argument = entry.arguments[i];
    if (defaults && parameters[i].find('=') == std::string::npos) {
      if (argument.kind == AKind::integers)
        parameters[i] += fmt::format("=[{}]", fmt::join(argument.integers, ", "));
      else
        parameters[i] += "=" + value_of(argument);
    }
    defaults = defaults || parameters[i].find('=') != std::string::npos;
  }
  std::string text = fmt::format("- func: {}({}) -> {}\n  doc: Drawn.\n", entry.name, fmt::join(parameters, ", "),
                                 results.size() == 1 ? "Tensor" : fmt::format("({})", fmt::join(results, ", ")));
  if (entry.pointwise()) {
    text += fmt::format("  pointwise: {}\n", in_quotes(with_lets(entry.lets, to_string(entry.bodies[0]))));
  } else if (entry.kind == Entry::Kind::composite) {
    std::vector<std::string> bodies;
    for (const ExprPtr& body : entry.bodies) bodies.push_back(to_string(body));
    const std::string whole = bodies.size() == 1 ? bodies[0] : fmt::format("({})", fmt::join(bodies, ", "));
    text += fmt::format("  composite: {}\n", in_quotes(with_lets(entry.lets, whole)));
  } else {
    std::vector<std::string> rules(entry.results.size(), "like(self)");
    text += fmt::format("  kernel: {{cpu: drawn}}\n  result: {}\n",
                        rules.size() == 1 ? rules[0] : fmt::format("[{}]", fmt::join(rules, ", ")));
    text += "  check: {that: \"self.numel() > 0\", says: \"nothing in {self.sizes()}\"}\n";
    text += "  nested: {error: \"drawn entries take dense tensors\"}\n";
  }
  if (entry.kind == Entry::Kind::automatic) text += "  derivative: auto\n";
  if (entry.kind == Entry::Kind::written || entry.kind == Entry::Kind::kernel) text += "  derivative:\n" + Formulas(entry).text();
  if (entry.inplace || entry.out)
    text += fmt::format("  variants: [{}]\n", entry.inplace && entry.out ? "inplace, out" : entry.inplace ? "inplace" : "out");
  text += fmt::format("  samples: [{{{}}}]\n", fmt::join(samples, ", "));
  return text;
}

std::string kernel_of(const Entry& entry) {
  if (entry.kind != Entry::Kind::kernel) return "";
  std::vector<std::string> parameters = {"const Context&"};
  std::string readers;
  for (const Argument& argument : entry.arguments) {
    const std::string& n = argument.name;
    switch (argument.kind) {
      case AKind::tensors:
        parameters.push_back("std::span<const View> " + n);
        readers += fmt::format("  const auto {0}_at = [&](int64_t i, int64_t k) {{ return {0}[k].ptr<double>()[i]; }};\n", n);
        break;
      case AKind::tensor:
      case AKind::optional_tensor:
        parameters.push_back("const View& " + n);
        readers += fmt::format("  const auto {0}_at = [&](int64_t i) {{ return {0}.ptr<double>()[i]; }};\n", n);
        break;
      case AKind::integers:
        parameters.push_back("std::span<const int64_t> " + n);
        readers += fmt::format("  const auto {0}_at = [&](int64_t, int64_t k) {{ return double({0}[k]); }};\n", n);
        break;
      default:
        parameters.push_back((argument.kind == AKind::integer   ? "int64_t "
                              : argument.kind == AKind::boolean ? "bool "
                                                                : "double ") +
                             n);
        readers += fmt::format("  const auto {0}_at = [&](int64_t) {{ return double({0}); }};\n", n);
    }
  }
  std::string writes;
  for (size_t result = 0; result < entry.results.size(); ++result) {
    parameters.push_back("const View& out_" + entry.results[result]);
    writes +=
        fmt::format("    out_{}.ptr<double>()[i] = {};\n", entry.results[result], cpp(inlined(entry, entry.bodies[result])));
  }
  return fmt::format("void {}({}) {{\n{}  for (int64_t i = 0; i < self.numel(); ++i) {{\n{}  }}\n}}\n\n", entry.name,
                     fmt::join(parameters, ", "), readers, writes);
}

std::string caller_of(const Entry& entry) {
  std::vector<std::string> args;
  size_t next = 0;
  for (const Argument& argument : entry.arguments) {
    if (argument.by_default) break;
    switch (argument.kind) {
      case AKind::tensor:
        args.push_back(fmt::format("x[{}]", next++));
        break;
      case AKind::optional_tensor:
        args.push_back(argument.sizes.empty() ? "Tensor()" : fmt::format("x[{}]", next++));
        break;
      case AKind::tensors: {
        std::vector<std::string> parts;
        for (size_t i = 0; i < argument.sizes.size(); ++i) parts.push_back(fmt::format("x[{}]", next++));
        args.push_back(fmt::format("{{{}}}", fmt::join(parts, ", ")));
        break;
      }
      case AKind::integers:
        args.push_back(fmt::format("{{{}}}", fmt::join(argument.integers, ", ")));
        break;
      case AKind::boolean:
        args.emplace_back(argument.number != 0 ? "true" : "false");
        break;
      case AKind::mask:
        args.push_back(fmt::format("full({{}}, {}, DType::bool_)", argument.number));
        break;
      default:
        args.push_back(fmt::format("{}", argument.number));
    }
  }
  std::string text = fmt::format("std::vector<Tensor> call_{}(const std::vector<Tensor>& x) {{\n", entry.name);
  if (entry.results.size() == 1) {
    text += fmt::format("  return {{deckle::{}({})}};\n}}\n", entry.name, fmt::join(args, ", "));
  } else {
    text += fmt::format("  const auto results = deckle::{}({});\n  return {{", entry.name, fmt::join(args, ", "));
    for (size_t i = 0; i < entry.results.size(); ++i) text += fmt::format("{}std::get<{}>(results)", i > 0 ? ", " : "", i);
    text += "};\n}\n";
  }
  if (entry.inplace) {
    text += fmt::format("std::vector<Tensor> inplace_{0}(const std::vector<Tensor>& x) {{ return {{deckle::{0}_({1})}}; }}\n",
                        entry.name, fmt::join(args, ", "));
  }
  if (entry.out) {
    for (const Argument& argument : entry.arguments) {
      if (argument.by_default) args.push_back(argument.kind == AKind::boolean ? "false" : fmt::format("{}", argument.number));
    }
    text += fmt::format(
        "std::vector<Tensor> out_{0}(const std::vector<Tensor>& x) {{ return {{deckle::{0}_out(x.back(), {1})}}; }}\n",
        entry.name, fmt::join(args, ", "));
  }
  return text + "\n";
}

std::string case_of(const Entry& entry) {
  return fmt::format("    {{\"{0}\", call_{0}, {1}, {2}}},\n", entry.name, entry.inplace ? "inplace_" + entry.name : "nullptr",
                     entry.out ? "out_" + entry.name : "nullptr");
}

}  // namespace deckle::random_entries
