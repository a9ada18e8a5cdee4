#include "opgen/emit/cpp/pointwise_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "opgen/derive/algebra.h"
#include "opgen/derive/calculus.h"
#include "opgen/emit/cpp/signature.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

/// Writes an expression as Highway calls; what occurs several times is computed once.
class VectorWriter {
 public:
  VectorWriter(const Op& op, const Functions& functions) : op_(op), functions_(functions), root_(op.computed) {
    std::map<std::string, int> uses;
    count(root_, uses);
    shared_ = std::move(uses);
  }

  std::string body() {
    std::string value = write(root_);
    if (op_.condition) value = "IfThenElse(" + value + ", Set(d, 1), Zero(d))";
    return statements_ + "return " + value + ";\n";
  }

 private:
  void count(const ExprPtr& node, std::map<std::string, int>& uses) {
    if (node->args.empty()) return;
    if (++uses[to_string(node)] > 1) return;  // its parts are shared through it
    for (const ExprPtr& argument : node->args) count(argument, uses);
  }

  std::string write(const ExprPtr& node) {
    if (node->args.empty()) return leaf(node);
    const std::string key = to_string(node);
    const auto known = names_.find(key);
    if (known != names_.end()) return known->second;
    const std::string value = operation(node);
    if (shared_[key] < 2 && value.size() <= 64) return value;
    const std::string name = fmt::format("t{}", names_.size());
    statements_ += fmt::format("const auto {} = {};\n", name, value);
    names_[key] = name;
    return name;
  }

  std::string leaf(const ExprPtr& node) const {
    if (node->is(ExprKind::number)) return algebra::value_of(node) == 0 ? "Zero(d)" : "Set(d, " + node->text + ")";
    if (node->text == "inf") return "Inf(d)";
    if (node->text == "nan") return "NaN(d)";
    if (node->text == "pi") return "Set(d, 3.14159265358979323846)";
    return node->text;
  }

  std::string operation(const ExprPtr& node) {
    std::vector<std::string> args;
    for (const ExprPtr& argument : node->args) args.push_back(write(argument));
    const std::string list = "(" + join(args) + ")";
    if (node->is(ExprKind::unary)) return (node->text == "-" ? "Neg" : "Not") + list;
    if (node->is(ExprKind::binary)) {
      static const std::map<std::string, std::string> kNames = {{"+", "Add"},         {"-", "Sub"},  {"*", "Mul"},
                                                                {"/", "Div"},         {"==", "Eq"},  {"<", "Lt"},
                                                                {"<=", "less_equal"}, {">", "Gt"},   {">=", "greater_equal"},
                                                                {"!=", "not_equal"},  {"&&", "And"}, {"||", "Or"}};
      if (is_boolean(node->args[0], functions_) && node->text == "!=") return "Xor" + list;
      if (is_boolean(node->args[0], functions_) && node->text == "==") return "Not(Xor" + list + ")";
      return kNames.at(node->text) + list;
    }
    if (node->text == "where" && is_boolean(node, functions_))
      return fmt::format("Or(And({0}, {1}), And(Not({0}), {2}))", args[0], args[1], args[2]);
    if (node->text == "where") return "IfThenElse" + list;
    if (node->text == "damped") return "damped" + list;
    return node->text + "(d, " + join(args) + ")";
  }

  const Op& op_;
  const Functions& functions_;
  ExprPtr root_;
  std::map<std::string, int> shared_;
  std::map<std::string, std::string> names_;
  std::string statements_;
};

/// Whether every value of the expression on halves is a half, without rounding: elements chosen, negated or rounded to whole
/// numbers, which are none with more bits.
bool keeps_halves(const ExprPtr& node, const Op& op) {
  static const std::set<std::string> kChoosing = {"abs", "sign", "minimum", "maximum", "floor", "ceil", "round", "trunc"};
  const auto keeps = [&](const ExprPtr& part) { return keeps_halves(part, op); };
  if (node->is(ExprKind::number)) {
    const double value = algebra::value_of(node);
    return value == std::floor(value) && std::abs(value) <= 256;
  }
  if (node->args.empty()) {
    const auto& arguments = op.schema.arguments;
    return node->text == "inf" || node->text == "nan" || std::any_of(arguments.begin(), arguments.end(), [&](const Argument& a) {
             return a.name == node->text && a.type.is_tensor();
           });
  }
  if (node->is(ExprKind::unary)) return node->text == "-" && keeps(node->args[0]);
  if (node->is(ExprKind::binary)) return false;
  if (node->text == "where") return keeps(node->args[1]) && keeps(node->args[2]);
  return kChoosing.count(node->text) > 0 && std::all_of(node->args.begin(), node->args.end(), keeps);
}

/// What an expression of elements and numbers within int32 is in lanes of int32, beside what it is in those of int64: the same,
/// the same modulo 2^32, or neither.
enum class InInt32 : uint8_t { neither, modulo, same };

InInt32 in_int32(const ExprPtr& node, const Op& op);

/// Whether a condition is the same.
bool is_same_condition(const ExprPtr& node, const Op& op) {
  static const std::set<std::string> kComparisons = {"==", "!=", "<", "<=", ">", ">="};
  const auto all = [&](const auto& holds) { return std::all_of(node->args.begin(), node->args.end(), holds); };
  if (node->is(ExprKind::binary) && kComparisons.count(node->text) > 0)
    return all([&](const ExprPtr& part) { return in_int32(part, op) == InInt32::same; });
  const bool logical = node->is(ExprKind::unary) ? node->text == "!" : node->text == "&&" || node->text == "||";
  return logical && all([&](const ExprPtr& part) { return is_same_condition(part, op); });
}

InInt32 in_int32(const ExprPtr& node, const Op& op) {
  // Of the arguments: those of `same` must be the same, others at least the same modulo 2^32.
  static const std::set<std::string> kRing = {"+", "-", "*", "square"}, kSame = {"minimum", "maximum", "sign", "right_shift"},
                                     kAnyOf = {"floor", "ceil", "round", "trunc", "bitwise_and", "bitwise_or", "bitwise_xor"};
  if (node->is(ExprKind::number)) {
    const double value = algebra::value_of(node);
    return value == std::floor(value) && std::abs(value) < 0x1p31 ? InInt32::same : InInt32::neither;
  }
  if (node->args.empty()) {
    const auto& arguments = op.schema.arguments;
    const bool known = std::any_of(arguments.begin(), arguments.end(), [&](const Argument& a) { return a.name == node->text; });
    return known ? InInt32::same : InInt32::neither;
  }
  if (node->text == "where" && !is_same_condition(node->args[0], op)) return InInt32::neither;
  InInt32 least = InInt32::same;
  for (size_t i = node->text == "where" ? 1 : 0; i < node->args.size(); ++i) least = std::min(least, in_int32(node->args[i], op));
  if (least == InInt32::neither || node->text == "where" || kAnyOf.count(node->text) > 0) return least;
  if (kRing.count(node->text) > 0) return InInt32::modulo;
  if (least != InInt32::same) return InInt32::neither;
  if (node->text == "abs" || node->text == "left_shift") return InInt32::modulo;
  return kSame.count(node->text) > 0 ? InInt32::same : InInt32::neither;
}

/// What the CPU's loops over halves and int32 ask of a functor. Not on a GPU, where nobody asks, which nvcc would warn of.
std::string traits(const Op& op) {
  if (op.condition) return "  static constexpr bool kHalves = false;  // its results are bool\n";
  std::string text;
  if (keeps_halves(op.computed, op)) text += "  static constexpr bool kExact = true;\n";
  if (op.dtypes != Dtypes::floating && in_int32(op.computed, op) != InInt32::neither)
    text += "  static constexpr bool kInt32 = true;\n";
  return text;
}

/// `code` with $0, $1, ... in place of these names.
std::string with_numbered_names(const std::string& code, const std::vector<std::string>& names) {
  std::string text;
  for (size_t at = 0; at < code.size();) {
    size_t end = at;
    while (end < code.size() && (std::isalnum(static_cast<unsigned char>(code[end])) != 0 || code[end] == '_')) ++end;
    const std::string word = code.substr(at, std::max<size_t>(end - at, 1));
    const auto found = std::find(names.begin(), names.end(), word);
    text += found == names.end() ? word : fmt::format("${}", found - names.begin());
    at += word.size();
  }
  return text;
}

}  // namespace

PointwiseKernel emit_pointwise_kernel(const Op& op, const Functions& functions) {
  const char* const blocks = op.dtypes == Dtypes::floating   ? "blocks"
                             : op.dtypes == Dtypes::integral ? "blocks_of_integers"
                                                             : "blocks_with_integers";
  const std::string function = op.unique_name();
  std::vector<std::string> inputs, parameters;
  for (const bool tensors : {true, false}) {
    for (const Argument& argument : op.schema.arguments) {
      if (argument.type.is_tensor() != tensors) continue;
      inputs.push_back(argument.name);
      const bool used = mentions(op.computed, argument.name);
      parameters.push_back(used ? "V " + argument.name : "V");
    }
  }
  PointwiseKernel kernel;
  const std::string body = VectorWriter(op, functions).body();
  const bool names_tag = body.find("(d)") != std::string::npos || body.find("(d,") != std::string::npos;
  const std::string formula = to_string(op.pointwise);
  const std::string functor = pascal_case(function) + "Formula";  // Neg and its like would hide Highway's functions
  const std::string head = fmt::format("// {}:{}{}\nstruct {} {{\n", op.at.file.text(), op.at.line,
                                       formula.size() <= 80 ? ": " + formula : "", functor);
  parameters.insert(parameters.begin(), names_tag ? "D d" : "D");
  const std::string call = "  template <class D, class V = hn::Vec<D>>\n" +
                           indent(wrap("HWY_INLINE V operator()", parameters, " const {") + "\n" + indent(body, 2) + "}\n", 2) +
                           "};\n";
  kernel.functor = head + traits(op) + call;
  kernel.cuda_functor = head + call;
  kernel.blocks =
      fmt::format("pointwise::Blocks {}_blocks() {{ return {}<{}, {}>(); }}\n\n", function, blocks, functor, inputs.size());
  kernel.exported = fmt::format("HWY_EXPORT({}_blocks);\n", function);
  kernel.function =
      wrap("void " + function, kernel_parameters(op), " {") +
      fmt::format("\n  pointwise::run(DECKLE_SIMD({}_blocks)(), compute, inputs, numbers, {{&result, 1}});\n}}\n", function);
  std::vector<std::string> named = kernel_parameters(op);
  named[0] += " context";
  kernel.cuda_head = wrap("void " + function, named, " {");
  kernel.cuda_table = "kernels" + std::string(blocks + std::string_view("blocks").size());
  kernel.inputs = inputs.size();
  kernel.functor_name = functor;
  kernel.expression = fmt::format("{}<{}> {}", kernel.cuda_table, inputs.size(), with_numbered_names(body, inputs));
  return kernel;
}

std::string cuda_function(const PointwiseKernel& kernel, const std::string& functor) {
  return fmt::format("{}\n  pointwise::run(pointwise::{}<{}, {}>(), context, compute, inputs, numbers, result);\n}}\n",
                     kernel.cuda_head, kernel.cuda_table, functor, kernel.inputs);
}

}  // namespace opgen::cpp
