#include "opgen/emit/cpp/raw.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "opgen/derive/calculus.h"
#include "opgen/emit/cpp/checks.h"
#include "opgen/emit/cpp/printer.h"
#include "opgen/emit/cpp/records.h"
#include "opgen/emit/cpp/signature.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

/// The inputs that only choose between values, as the bits of a mask.
std::string conditions(const Op& op) {
  unsigned bits = 0, next = 0;
  for (const Argument& argument : op.schema.arguments) {
    if (!argument.type.is_tensor()) continue;
    if (only_condition(op.pointwise, argument.name)) bits |= 1U << next;
    ++next;
  }
  return bits == 0 ? "" : fmt::format(", std::nullopt, {}", bits);
}

/// What the condition on one operand is wherever that is integral, so that the op need not read it.
std::string of_integers(const Op& op) {
  static const std::map<std::string, bool> kOfIntegers = {{"isnan", false}, {"isinf", false}, {"isfinite", true}};
  const auto found = kOfIntegers.find(op.pointwise->text);
  const bool alone = op.pointwise->is(ExprKind::call) && op.pointwise->args.size() == 1 && op.pointwise->args[0]->args.empty();
  return alone && found != kOfIntegers.end() ? fmt::format(", 0, {}", found->second) : "";
}

/// `head { checks; launch }`. `rows`: operands are RowOperands.
std::string checked_launch(const Op& op, const std::string& head, const std::string& launch, bool rows) {
  if (op.checks.empty()) return one_line_or_block(head, launch);
  Place place;
  for (size_t i = 0; i < op.schema.arguments.size(); ++i) {
    const Argument& argument = op.schema.arguments[i];
    place.read(Symbol::What::argument, i, argument.name + (rows && argument.type.is_tensor() ? ".values()" : ""));
    if (rows && argument.type.is_tensor()) {
      place.parts[{{Symbol::What::argument, i}, Symbol::How::sizes}] = argument.name + ".sizes()";
      place.parts[{{Symbol::What::argument, i}, Symbol::How::dtype}] = argument.name + ".dtype()";
    }
    place.shadowing.insert(argument.name);
  }
  return head + " {\n" + indent(print_checks(op, place) + launch + "\n", 2) + "}\n";
}

RawText pointwise(const Op& op, bool cuda) {
  RawText text;
  const std::string row = op.unique_name() + "_op";
  static const std::map<Dtypes, const char*> kDtypes = {
      {Dtypes::floating, "floating"}, {Dtypes::numeric, "numeric"}, {Dtypes::all, "all"}, {Dtypes::integral, "integral"}};
  const std::string name = op.unique_name(), second = cuda ? ", kernels::cuda::generated::" + name : "";
  text.row = fmt::format("constexpr launch::Pointwise {}{{{{kernels::cpu::generated::{}{}}}, launch::Dtypes::{}{}}};\n", row,
                         name, second, kDtypes.at(op.dtypes), op.condition ? ", DType::bool_" + of_integers(op) : conditions(op));
  std::vector<std::string> tensors, numbers;
  for (const Argument& argument : op.schema.arguments) (argument.type.is_tensor() ? tensors : numbers).push_back(argument.name);
  const std::string operands = "{" + join(tensors) + "}" + (numbers.empty() ? "" : ", {" + join(numbers) + "}");
  text.functions = checked_launch(op, raw_signature(op, false, false),
                                  fmt::format("return launch::pointwise({}, {});", row, operands), op.takes_rows());
  if (op.inplace || op.out)
    text.functions += checked_launch(op, raw_signature(op, true, false),
                                     fmt::format("launch::pointwise_out({}, out, {});", row, operands), false);
  return text;
}

/// In front of ops of Deckle's own that every library's code calls.
std::string deckles(const Op& op) { return op.home.plain ? "" : "deckle::"; }

/// The raw function of a kernel: dims counted from 0, checks, results allocated, the call.
class KernelLaunch {
 public:
  KernelLaunch(const Op& op, bool cuda) : op_(op), cuda_(cuda && op.kernels.count("cuda") > 0) {
    for (size_t i = 0; i < arguments().size(); ++i) {
      place_.read(Symbol::What::argument, i, arguments()[i].name);
      place_.shadowing.insert(arguments()[i].name);
      if (!first_ && arguments()[i].type.is_tensor_like()) first_ = &arguments()[i];
    }
  }

  RawText print() {
    RawText text;
    const std::string row = op_.unique_name() + "_row";
    text.row = wrap("constexpr dispatch::KernelRow<void", kernel_parameters(op_),
                    fmt::format("> {}{{kernels::cpu::{}{}}};\n", row, op_.kernels.at("cpu").function,
                                cuda_ ? ", kernels::cuda::" + op_.kernels.at("cuda").function : ""));
    std::string body = unpack_records(op_);
    for (const Wrap& wrap : op_.wraps) body += wrapped_dim(wrap);
    static const std::map<Dtypes, const char*> kRequired = {
        {Dtypes::floating, "require_floating"}, {Dtypes::numeric, "require_numeric"}, {Dtypes::integral, "require_integral"}};
    if (const auto required = kRequired.find(op_.dtypes); required != kRequired.end()) {
      for (const Argument* argument : real_inputs())
        body += fmt::format("launch::{}({}, {});\n", required->second, argument->name, quote(argument->label()));
    }
    body += print_checks(op_, place_) + in_memory_order() + device() + allocations();
    std::vector<std::string> values = {"Context{device}"};
    for (const Parameter& parameter : op_.schema.parameters())
      values.push_back(in_view(parameter, [&](size_t i) { return kernel_argument(i); }));
    for (const Parameter& outcome : op_.schema.outcomes())
      values.push_back(in_view(outcome, [&](size_t i) { return "dispatch::view(" + op_.result_name(i) + ")"; }));
    body += wrap(row + ".on(device)", values, ";") + "\n";
    body += "return " + result_value(op_) + ";\n";
    text.functions = raw_signature(op_, false, false) + " {\n" + indent(body, 2) + "}\n";
    if (op_.out || op_.inplace)
      text.functions += one_line_or_block(raw_signature(op_, true, false), deckles(op_) + "native::copy_(out, " + op_.name() +
                                                                               "(" + join(op_.argument_names()) + "));");
    return text;
  }

 private:
  const std::vector<Argument>& arguments() const { return op_.schema.arguments; }
  std::string print(const TermPtr& term) const { return Printer(place_)(term); }

  /// What a kernel gets for a parameter: one value, or a struct of the fields of a record.
  template <typename Value>
  static std::string in_view(const Parameter& parameter, const Value& value) {
    if (!parameter.is_record()) return value(parameter.first);
    std::vector<std::string> fields;
    for (size_t i = 0; i < parameter.count; ++i) fields.push_back(value(parameter.first + i));
    return view_name(*parameter.type.record) + "{" + join(fields) + "}";
  }

  std::string wrapped_dim(const Wrap& wrap) {
    const Argument& argument = arguments()[wrap.argument];
    const std::string range = wrap.rank ? print(wrap.rank) : first_->name + ".sizes()", name = argument.name + "_wrapped";
    if (argument.type.list && argument.type.optional)
      return fmt::format("const Dims {0} = launch::wrap_dims({1}.value_or(IntSpan()), {2});\nif ({1}) {1} = {0};\n", name,
                         argument.name, range);
    if (argument.type.list) {
      place_.read(Symbol::What::argument, wrap.argument, name);
      return fmt::format("const Dims {} = launch::wrap_dims({}, {});\n", name, argument.name, range);
    }
    if (argument.type.optional) return fmt::format("if ({0}) {0} = launch::wrap_dim(*{0}, {1});\n", argument.name, range);
    return fmt::format("{0} = launch::wrap_dim({0}, {1});\n", argument.name, range);
  }

  /// The inputs that a kernel of floating dtypes computes with: those that have derivatives; without any, the first tensor.
  std::vector<const Argument*> real_inputs() const {
    std::vector<const Argument*> inputs;
    for (const size_t input : op_.differentiable()) inputs.push_back(&arguments()[input]);
    if (inputs.empty() && first_ != nullptr) inputs.push_back(first_);
    return inputs;
  }

  /// Operands that are all permuted in one way are taken as they lie.
  std::string in_memory_order() const {
    if (op_.permuted.empty()) return "";
    std::vector<std::string> values, tensors;
    for (size_t i = 0; i < arguments().size(); ++i) {
      const Argument& argument = arguments()[i];
      const std::string value = place_.reads.at({Symbol::What::argument, i});
      const bool named = std::find(op_.permuted.begin(), op_.permuted.end(), argument.name) != op_.permuted.end();
      if (named && argument.type.is_tensor()) tensors.push_back("&" + argument.name);
      values.push_back(named || is_dim(argument) ? "order.permute(" + value + ")" : value);
    }
    return fmt::format("if (const launch::MemoryOrder order({{{}}}); order{})\n  return order.restore(raw::{}({}));\n",
                       join(tensors), op_.permuted_slices ? " && !order.innermost(dim)" : "", op_.name(), join(values));
  }

  std::string device() const {
    const std::string common = common_device(op_);
    return "const Device device = " + (common.empty() ? "launch::factory_device()" : common) + ";\n";
  }

  const Argument* optional_like(const Allocation& allocation) const {
    if (!allocation.like->reads(Symbol::What::argument)) return nullptr;
    const Argument& argument = arguments()[allocation.like->symbol.index];
    return argument.type.optional ? &argument : nullptr;
  }

  /// What was not given is not wanted either.
  std::string wanted(const Allocation& allocation) const {
    const Argument* const optional = optional_like(allocation);
    if (optional == nullptr) return Printer(place_).condition(*allocation.wanted);
    const bool any = allocation.wanted->operation == Operator::logical_or;
    const std::string condition = Printer(place_).condition(*allocation.wanted);
    return fmt::format("{} && {}.defined()", any ? "(" + condition + ")" : condition, print(allocation.like));
  }

  /// Lists that say of each field whether it is wanted have one element for each.
  std::string wanted_lengths() const {
    std::map<size_t, size_t> lengths;
    for (const Allocation& allocation : op_.allocations) {
      if (!allocation.wanted || !allocation.wanted->is(TermKind::index) || allocation.wanted->arguments.size() < 2) continue;
      const Term &list = *allocation.wanted->arguments[0], &number = *allocation.wanted->arguments[1];
      if (!list.reads(Symbol::What::argument) || !number.is(TermKind::literal)) continue;
      size_t& length = lengths[list.symbol.index];
      length = std::max(length, static_cast<size_t>(std::stoul(number.text)) + 1);
    }
    std::string text;
    for (const auto& [index, length] : lengths)
      text += fmt::format("launch::require_length({}.size(), {}, {});\n", arguments()[index].name, length,
                          quote(arguments()[index].label()));
    return text;
  }

  /// Whether a result may be wanted and is like an operand that the kernel takes with any strides.
  bool like_strided(const Allocation& allocation) const {
    if (!allocation.wanted || !allocation.like->reads(Symbol::What::argument)) return false;
    const std::string& name = arguments()[allocation.like->symbol.index].name;
    return std::find(op_.strided.begin(), op_.strided.end(), name) != op_.strided.end();
  }

  std::string allocations() const {
    std::string text = wanted_lengths();
    std::vector<std::string> strided;
    for (const Allocation& allocation : op_.allocations) {
      if (like_strided(allocation)) strided.push_back(print(allocation.like));
    }
    if (strided.size() > 1) text += fmt::format("const launch::SlicedAllocation slices({{{}}}, device);\n", join(strided));
    for (size_t i = 0; i < op_.allocations.size(); ++i) {
      const Allocation& allocation = op_.allocations[i];
      const std::string like = allocation.like ? print(allocation.like) : "";
      if (allocation.wanted) {
        const std::string empty = strided.size() > 1 && like_strided(allocation)
                                      ? fmt::format("slices.empty_like({})", like)
                                      : fmt::format("deckle::empty({0}.sizes(), {0}.dtype(), device)", like);
        text += fmt::format("const Tensor {} = {} ? {} : deckle::empty({{0}}, DType::float32, device);\n", op_.result_name(i),
                            wanted(allocation), empty);
        continue;
      }
      text += fmt::format("const Tensor {} = deckle::empty({}, {}, device);\n", op_.result_name(i),
                          allocation.like ? like + ".sizes()" : print(allocation.shape),
                          allocation.dtype ? print(allocation.dtype) : like + ".dtype()");
    }
    return text;
  }

  std::string kernel_argument(size_t index) const {
    const Argument& argument = arguments()[index];
    const std::string cpp = place_.reads.at({Symbol::What::argument, index});
    const bool strided = op_.strided_all || std::find(op_.strided.begin(), op_.strided.end(), argument.name) != op_.strided.end();
    const std::string memory = strided ? cpp : "launch::contiguous(" + cpp + ")";
    if (argument.type.is_tensor()) return "dispatch::view(" + memory + ")";
    if (argument.type.is_list_of(Base::tensor)) return "dispatch::views(" + memory + ")";
    if (argument.type.is(Base::scalar))
      return argument.type.optional ? fmt::format("launch::to_double({})", cpp) : cpp + ".to_double()";
    if (argument.type.is(Base::ragged)) return "dispatch::view(" + cpp + ", device)";
    if (argument.type.is(Base::generator)) return fmt::format("launch::reserve({}, {})", cpp, op_.result_name(0));
    return cpp;
  }

  const Op& op_;
  const bool cuda_;
  Place place_;
  const Argument* first_ = nullptr;
};

}  // namespace

RawText print_raw(const Op& op, bool cuda) {
  return op.body == Op::Body::pointwise ? pointwise(op, cuda) : KernelLaunch(op, cuda).print();
}

}  // namespace opgen::cpp
