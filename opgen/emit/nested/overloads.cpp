#include "opgen/emit/nested/overloads.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "opgen/emit/cpp/autocast.h"
#include "opgen/emit/cpp/checks.h"
#include "opgen/emit/cpp/method_types.h"
#include "opgen/emit/cpp/options.h"
#include "opgen/emit/cpp/types.h"
#include "opgen/emit/nested/by_hand.h"
#include "opgen/emit/nested/choices.h"
#include "opgen/text/strings.h"

namespace opgen::nested {
namespace {

/// The overloads of one op, one per choice of nested arguments.
class Overloads {
 public:
  Overloads(const Program& program, const Op& op) : program_(program), op_(op) {}

  void emit(std::string& header, std::string& source, cpp::Methods& methods) {
    if (op_.nested.kind == NestedRule::Kind::error) {
      nested_ = nested_arguments(op_);
      if (nested_.empty()) return;
      header +=
          fmt::format("{} {}({}) = delete;  // {}\n\n", result_type(), op_.name(), join(parameter_list(true)), op_.nested.error);
      if (is_method()) methods.refuse(op_, result_type(), op_.name(), behind_self(true), op_.nested.error);
      return;
    }
    for (const std::set<std::string>& choice : nested_choices(op_)) {
      nested_ = choice;
      if (is_method()) methods.add(op_, result_type(), op_.name(), behind_self(true), behind_self(false));
      if (op_.nested.kind == NestedRule::Kind::cpp) {  // deckle::nested::NAME, written by hand
        header += fmt::format("/// {}\n{}{};\n{}\n", op_.doc, over_comment(op_), signature(true), options_alone());
        source += fmt::format("namespace nested {{\n{};\n}}\n\n",
                              wrap(of_nested(cpp::return_type(op_)) + " " + op_.name(),
                                   beside_nested(cpp::parameters(op_, false), cpp::parameter_type), ""));
        source += define(signature(false), converted_call() + cpp::unpack_options(op_) + cpp::require_arguments(op_) +
                                               refusals(op_, first()) + checks() + factories_there() + "return " +
                                               wrap(op_.home.prefix() + "nested::" + op_.name(), op_.argument_names(), ";\n"));
        continue;
      }
      header += (op_.doc.empty() ? "" : fmt::format("/// {}\n", op_.doc)) + signature(true) + ";\n" + options_alone();
      source += define(signature(false), op_.writes_argument() ? written_body() : body());
      if (op_.inplace && nested_.contains(op_.schema.arguments[0].name)) {
        header += inplace_signature(true) + ";\n";
        header += cpp::options_alone(op_, "NestedTensor", op_.name() + "_", parameter_list(true));
        source += define(inplace_signature(false), inplace_body(), "_");
        if (is_method()) methods.add(op_, "NestedTensor", op_.name() + "_", behind_self(true), behind_self(false));
      }
      if (reduces_everything()) {
        header += fmt::format("Tensor {0}(const NestedTensor& {1});\n", op_.name(), first());
        source += define(fmt::format("Tensor {0}(const NestedTensor& {1})", op_.name(), first()),
                         fmt::format("return {0}(nested::whole({1}));\n", op_.home.prefix() + op_.name(), first()));
        if (is_method()) methods.add_of_nothing("Tensor", op_.name());
      }
      header += "\n";
    }
  }

 private:
  const std::vector<Argument>& arguments() const { return op_.schema.arguments; }
  bool is_method() const { return op_.method && is_nested(arguments()[0]); }
  std::vector<std::string> behind_self(bool defaults) const {
    std::vector<std::string> parts = parameter_list(defaults);
    parts.erase(parts.begin());
    return parts;
  }

  /// Indices of rows, which are made on the host, are copied to the device of the values.
  std::string factories_there() const { return fmt::format("const nested::OnDeviceOf there({});\n", first()); }

  std::string converted_call() const {
    return cpp::convert_operands(op_, [this](const Argument& argument) {
      return is_nested(argument) ? "nested::convert(" + argument.name + ", converted)" : "converted(" + argument.name + ")";
    });
  }

  /// Those of the entry, but for what it leaves to C++.
  std::string checks() const {
    cpp::Place place;
    for (size_t i = 0; i < arguments().size(); ++i) {
      place.read(Symbol::What::argument, i, arguments()[i].label());
      place.shadowing.insert(arguments()[i].name);
      if (is_nested(arguments()[i])) place.nested.insert({Symbol::What::argument, i});
    }
    for (const Group& group : op_.schema.groups) {
      place.records[group.first] = group.name;
      place.shadowing.insert(group.name);
    }
    std::string compared, text;
    std::set<std::string> seen;
    for (const Check& check : op_.checks) {
      if (!check.by_hand.empty()) continue;
      visit(*check.condition, [&](const Term& part) {
        if (!part.is(TermKind::operation) || part.arguments.size() != 2) return;
        const std::string a = nested_sizes(*part.arguments[0]), b = nested_sizes(*part.arguments[1]);
        if (!a.empty() && !b.empty() && seen.insert(a + b).second)
          compared += fmt::format("nested::require_same_ragged({1}, {0}, \"{1}\", \"{0}\");\n", a, b);
      });
      text += cpp::print_check(check, place);
    }
    return compared + text;
  }

  /// The nested argument whose sizes these are; "" if they are something else.
  std::string nested_sizes(const Term& term) const {
    if (!term.is(TermKind::property) || term.property != Property::sizes) return "";
    const Term& of = *term.arguments[0];
    if (!of.reads(Symbol::What::argument) || !is_nested(arguments()[of.symbol.index])) return "";
    return arguments()[of.symbol.index].name;
  }

  /// A function whose errors begin with the op's name and give the shapes of its nested arguments.
  std::string define(const std::string& head, const std::string& body, const std::string& suffix = "") const {
    std::vector<std::string> operands;
    for (const Argument& argument : arguments()) {
      if (is_nested(argument) && !argument.type.list)
        operands.push_back(fmt::format("{{{}, {}}}", quote(argument.name), argument.name));
    }
    return fmt::format("{} try {{\n{}}} catch (...) {{\n  rethrow_from({}, {{{}}});\n}}\n\n", head, indent(body, 2),
                       quote(op_.name() + suffix), join(operands));
  }
  bool pointwise() const { return combines(op_); }
  bool is_nested(const Argument& argument) const { return nested_.contains(argument.name); }
  const std::string& first() const {
    return std::find_if(arguments().begin(), arguments().end(), [&](const Argument& a) { return is_nested(a); })->name;
  }

  /// A reduction over `int[]? dim=None` becomes two: over all elements, and over the dims given.
  bool optional_dims(const Argument& argument) const { return is_dim(argument) && argument.type.optional; }

  /// `sum(x)`: a dense result, for it has no batch dim.
  bool reduces_everything() const {
    const Argument* const dim = dim_argument();
    return dim != nullptr && optional_dims(*dim) && arguments()[1].name == dim->name && arguments()[0].name == first();
  }

  /// Parameters with nested tensors in their places.
  std::vector<std::string> beside_nested(std::vector<std::string> parts, std::string (*type)(const Type&)) const {
    const std::vector<Parameter> parameters = op_.schema.parameters();
    for (size_t i = 0; i < parameters.size() && parameters[i].first < op_.positional(); ++i) {
      const Argument& argument = arguments()[parameters[i].first];
      if (is_nested(argument))
        parts[i] = (argument.type.list ? "const std::vector<NestedTensor>& " : "const NestedTensor& ") + argument.name;
      if (optional_dims(argument)) {  // given here
        Type given = argument.type;
        given.optional = false;
        parts[i] = type(given) + " " + argument.name;
      }
    }
    return parts;
  }

  std::string result_type() const { return of_nested(cpp::public_return_type(op_)); }
  std::string of_nested(std::string result) const {
    if (op_.nested.dense) return result;
    if (op_.writes_argument()) return "NestedTensor";
    for (size_t at = 0; (at = result.find("Tensor", at)) != std::string::npos; at += 12) result.replace(at, 6, "NestedTensor");
    return result;
  }

  std::vector<std::string> parameter_list(bool defaults) const {
    return beside_nested(cpp::public_parameters(op_, defaults), cpp::public_type);
  }
  std::string signature(bool defaults) const { return wrap(result_type() + " " + op_.name(), parameter_list(defaults), ""); }
  std::string options_alone() const { return cpp::options_alone(op_, result_type(), op_.name(), parameter_list(true)); }
  std::string inplace_signature(bool defaults) const {
    return wrap("NestedTensor " + op_.name() + "_", parameter_list(defaults), "");
  }

  /// Pointwise, several nested operands may differ in their dims; so may what is written into the first.
  bool broadcasts() const { return (pointwise() || op_.writes_argument()) && nested_.size() > 1; }
  std::string lead() const { return broadcasts() ? "lead" : first(); }
  std::string choose_lead() const {
    std::vector<std::string> operands;
    for (const Argument& argument : arguments()) {
      if (is_nested(argument)) operands.push_back("&" + argument.name);
    }
    return fmt::format("const nested::Lead lead = nested::leading({{{}}});\n", join(operands));
  }

  std::string require_same() const {
    if (broadcasts()) return choose_lead();
    std::string lines;
    for (const Argument& argument : arguments()) {
      if (is_nested(argument) && argument.name != first())
        lines += fmt::format("nested::require_same_ragged({0}, {1}, \"{0}\", \"{1}\");\n", first(), argument.name);
    }
    return lines;
  }

  /// `on_rows`: for an op that reads rows that repeat where they are; others read them written out.
  std::string on_values(const Argument& argument, bool on_rows) const {
    const bool beside = is_nested(argument) ? broadcasts() : pointwise() && argument.type.is_tensor();
    if (beside) {
      const std::string rows = fmt::format("nested::broadcast_to({}, {})", argument.name, lead());
      return on_rows ? rows : "launch::written_out(" + rows + ")";
    }
    const bool whole = op_.nested.kind == NestedRule::Kind::whole;
    if (is_nested(argument) && !op_.nested.zeros_need.empty())
      return fmt::format("nested::with_finite_rows({}, {})", argument.name, op_.nested.zeros_need);
    if (is_nested(argument)) return whole ? "nested::whole(" + argument.name + ")" : argument.name + ".values()";
    if (is_dim(argument))
      return argument.type.list ? fmt::format("nested::values_dims({}, {})", argument.name, first())
                                : fmt::format("nested::values_dim({}, {})", argument.name, first());
    return argument.name;
  }

  std::vector<std::string> values_arguments(bool on_rows) const {
    std::vector<std::string> parts;
    for (const Argument& argument : arguments()) parts.push_back(on_values(argument, on_rows));
    return parts;
  }

  /// Whether a result may lie where the operand lies: of kernels it never does.
  bool may_be_view() const { return !broadcasts() && op_.body != Op::Body::pointwise && op_.body != Op::Body::kernel; }

  /// `return NestedTensor::of_op(call, ragged);` for one, several or a list of results.
  std::string wrap_results(const std::string& call, const std::string& ragged) const {
    const std::vector<Result>& results = op_.schema.results;
    if (results.size() == 1 && results[0].type.list) {
      return fmt::format(
          "std::vector<NestedTensor> results;\nfor (const Tensor& values : {}) results.push_back(NestedTensor::of_op(values, "
          "{}));\nreturn "
          "results;\n",
          call, ragged);
    }
    if (results.size() == 1) return fmt::format("return NestedTensor::of_op({}, {});\n", call, ragged);
    std::vector<std::string> names, wrapped_names;
    for (size_t i = 0; i < results.size(); ++i) {
      names.push_back(op_.result_name(i));
      wrapped_names.push_back(fmt::format("NestedTensor::of_op({}, {})", names.back(), ragged));
    }
    return fmt::format("const auto [{}] = {};\nreturn {{{}}};\n", join(names), call, join(wrapped_names));
  }

  const Argument* dim_argument() const {
    for (const Argument& argument : arguments()) {
      if (is_dim(argument)) return &argument;
    }
    return nullptr;
  }

  std::string values_call() const {
    if (pointwise() && op_.takes_rows()) return wrap(op_.home.prefix() + "detail::" + op_.name(), values_arguments(true), "");
    return wrap(op_.home.prefix() + op_.name(), cpp::passed_on(op_, values_arguments(false)), "");
  }

  const Op& segment_op() const { return *program_.overloads_of(op_.nested.segment).front(); }

  /// The segment op takes the grouped values, the groups, then what it shares with this op by name.
  std::string segment_call() const {
    std::vector<std::string> parts;
    bool values_given = false;
    for (const Argument& argument : segment_op().schema.arguments) {
      const Argument* const own = op_.schema.find(argument.name);
      if (argument.type.base == Base::ragged) {
        parts.push_back("groups.ragged()");
      } else if (argument.type.is_tensor() && !values_given) {
        parts.push_back("groups.values()");
        values_given = true;
      } else if (own != nullptr) {
        parts.push_back(own->name);
      }
    }
    return wrap(segment_op().home.prefix() + op_.nested.segment, parts, "");
  }

  /// A result of the segment op as one of this op: reduced, if this op takes dims away, or in the order of the rows again. Those
  /// called `rows` become places along the dim.
  std::string regroup(const std::string& value, const Result& of) const {
    const std::string places = of.name == "rows" ? fmt::format("groups.positions({})", value) : value;
    return op_.schema.find("keepdim") ? fmt::format("groups.reduce({}, keepdim)", places)
                                      : fmt::format("groups.restore({})", places);
  }

  bool groups_read_options() const {
    return std::any_of(arguments().begin(), arguments().end(), [&](const Argument& argument) {
      return argument.keyword_only && (argument.name == "keepdim" || segment_op().schema.find(argument.name) != nullptr);
    });
  }

  std::string on_groups(const Argument& dim) const {
    const std::string over = dim.type.list ? dim.name : "{" + dim.name + "}";
    std::string text = (groups_read_options() ? cpp::unpack_options(op_) : "") + factories_there() +
                       fmt::format("const nested::Groups groups({}, {});\n", first(), over);
    const std::vector<Result>& results = segment_op().schema.results;
    if (results.size() == 1) return text + fmt::format("return {};\n", regroup(segment_call(), results[0]));
    std::vector<std::string> names, parts;
    for (const Result& result : results) {
      names.push_back(result.name);
      parts.push_back(regroup(names.back(), result));
    }
    return text + fmt::format("const auto [{}] = {};\nreturn {{{}}};\n", join(names), segment_call(), join(parts));
  }

  std::string body() const {
    const Argument* const dim = dim_argument();
    std::string text = require_same();
    if (op_.nested.kind == NestedRule::Kind::whole) return text + "return " + values_call() + ";\n";
    if (op_.nested.rows) text += require_rows(first());
    if (pointwise() && op_.takes_rows()) text += cpp::unpack_options(op_);  // which stand alone there
    const std::string on_the_values = wrap_results(values_call(), may_be_view() ? first() : lead() + ".ragged()");
    if (dim == nullptr || op_.nested.segment.empty()) return text + on_the_values;
    if (op_.body == Op::Body::kernel && op_.dtypes == Dtypes::floating)
      text += fmt::format("nested::require_floating({0}, {1});\n", first(), quote(first()));
    const std::string regular =
        fmt::format("nested::{}({}, {})", dim->type.list ? "are_regular" : "is_regular", dim->name, first());
    return text + fmt::format("if ({}) {{\n{}}}\n", regular, indent(on_the_values, 2)) + on_groups(*dim);
  }

  std::string inplace_body() const { return writing(op_.name() + "_"); }
  std::string written_body() const { return writing(op_.name()); }

  /// A call that writes into the first argument, beside which the others must fit. The result is made anew, for then spare rows
  /// of a RaggedCapacity are zero again.
  std::string writing(const std::string& call) const {
    std::string lines = broadcasts() ? fmt::format("const nested::Lead lead = {};\n", first()) : require_same();
    if (op_.nested.rows) lines += require_rows(first());
    return lines + wrap(op_.home.prefix() + call, cpp::passed_on(op_, values_arguments(false)), ";\n") +
           fmt::format("return NestedTensor::of_op({0}.values(), {0}.ragged());\n", first());
  }

  const Program& program_;
  const Op& op_;
  std::set<std::string> nested_;
};

}  // namespace

bool has_overloads(const Op& op) {
  if (op.external || op.derived || op.schema.results.empty()) return false;
  return op.nested.kind != NestedRule::Kind::absent || op.body == Op::Body::pointwise;
}

void emit_overloads(const Program& program, const Op& op, std::string& header, std::string& source, cpp::Methods& methods) {
  Overloads(program, op).emit(header, source, methods);
}

}  // namespace opgen::nested
