#include "opgen/emit/tests/tests.h"
#include "opgen/analyze/calls.h"
#include "opgen/analyze/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "opgen/analyze/calls.h"
#include "opgen/emit/common/layout.h"
#include "opgen/emit/cpp/records.h"
#include "opgen/emit/cpp/signature.h"
#include "opgen/emit/tests/reference.h"
#include "opgen/emit/tests/sample.h"
#include "opgen/text/strings.h"

namespace opgen::tests {
namespace {

/// Writes one sample of one op as a test case.
class SampleWriter {
 public:
  SampleWriter(const Op& op, const Functions& functions, const Sample& sample, size_t number)
      : op_(op), functions_(functions), sample_(sample), number_(number), arguments_(argument_texts(op, sample)) {}

  std::string write() const {
    return fmt::format("TEST({}, Sample{}) {{\n{}}}\n\n", pascal_case(op_.unique_name()), number_,
                       indent(statements() + "suite::check(op);\n", 2));
  }

  /// The op is linear in each set of inputs of which its entry says so, those of a set together, the others held; results that
  /// the entry does not name are not looked at.
  std::string write_linear() const {
    std::string tests;
    for (size_t set = 0; set < op_.linear_in.size(); ++set) {
      const LinearSet& together = op_.linear_in[set];
      std::vector<std::string> flags;
      bool floating = true;  // of integers nothing can be said
      for (const SampleTensor& tensor : sample_.tensors) {
        const std::string& input = op_.schema.arguments[tensor.argument].name;
        const bool linear = together.of(input);
        floating = floating && (!linear || tensor.differentiable);
        flags.emplace_back(linear ? "true" : "false");
      }
      const bool zero = std::all_of(together.inputs.begin(), together.inputs.end(),
                                    [this](const std::string& name) { return is_zero_or_tensor(name); });
      if (!floating || !zero || std::find(flags.begin(), flags.end(), "true") == flags.end()) continue;
      std::vector<std::string> results;
      for (const size_t result : together.results) results.push_back(std::to_string(result));
      const std::string of = results.empty() ? "op" : "suite::of_results(op, {" + join(results) + "})";
      const std::string body = statements() + "op.differentiable = {" + join(flags) + "};\nsuite::check_linear(" + of + ");\n";
      tests += fmt::format("TEST({}, Sample{}IsLinearAsItsEntrySays{}) {{\n{}}}\n\n", pascal_case(op_.unique_name()), number_,
                           op_.linear_in.size() > 1 ? fmt::format("OfSet{}", set + 1) : "", indent(body, 2));
    }
    return tests;
  }

  /// The op reads sizes and dtypes alone of the inputs of which its entry says so.
  std::string write_metadata() const {
    return fmt::format(
        "TEST({}, Sample{}ReadsNoValuesOfWhatItsEntrySays) {{\n{}}}\n\n", pascal_case(op_.unique_name()), number_,
        indent(statements() + "suite::check_metadata(op, {" + tensors_among(op_, sample_, op_.metadata) + "});\n", 2));
  }

  /// In the scope of an Autocast the op is itself on converted operands.
  std::string write_autocast() const {
    return fmt::format("TEST({}, Sample{}ConvertsItsOperandsInAScope) {{\n{}}}\n\n", pascal_case(op_.unique_name()), number_,
                       indent(statements() + autocast_check(op_, sample_), 2));
  }

  /// Whether the argument is a tensor, or a number that the sample gives as 0.
  bool is_zero_or_tensor(const std::string& name) const {
    const size_t index = op_.index_of(name);
    const Argument& argument = op_.schema.arguments[index];
    if (argument.type.is_tensor_like()) return true;
    const std::vector<std::string>& given = sample_.arguments[index].values;
    return (given.empty() ? argument.default_value.value_or("") : given[0]) == "0";
  }

  /// What makes the case `op`.
  std::string statements() const {
    std::string body = "suite::Random random;\nsuite::Case op;\n";
    body += fmt::format("op.name = {};\n", quote(op_.unique_name()));
    std::vector<std::string> tensors, flags;
    for (const SampleTensor& tensor : sample_.tensors) {
      tensors.push_back(random_call(tensor));
      flags.emplace_back(tensor.differentiable ? "true" : "false");
    }
    if (!tensors.empty()) body += "op.tensors = {" + join(tensors) + "};\n";
    body += "op.differentiable = {" + join(flags) + "};\n";
    body += call("call", op_.writes_argument() ? cpp::Variant::inplace : cpp::Variant::functional);
    if (op_.inplace && same_shape_inplace()) body += call("inplace", cpp::Variant::inplace);
    if (op_.out) body += call("out", cpp::Variant::out);
    if (op_.body == Op::Body::pointwise) {
      body += "op.pointwise = true;\n" + reference();
      if (op_.dtypes != Dtypes::floating) body += "op.integers = true;\n";
      if (!op_.checks.empty()) body += "op.checks = true;\n";
    }
    if (op_.is_view()) body += "op.view = true;\n";
    if (waits_for_device(op_)) body += "op.host = true;\n";
    if (is_of_cpu(op_)) body += "op.of_cpu = true;\n";
    if (op_.linear && sample_.differentiable) body += "op.linear = true;\n";
    if (op_.element_wise && sample_.differentiable) body += "op.element_wise = true;\n";
    if (!op_.test_strided) body += "op.strided = false;\n";
    if (const std::string which = results_of_dtype(is_of_statistics); !which.empty())
      body += "op.statistics = {" + which + "};\n";
    if (const std::string which = results_of_dtype(is_float64); !which.empty()) body += "op.always_float64 = {" + which + "};\n";
    if (!sample_.differentiable) body += "op.derivatives = false;\n";
    if (op_.takes(Base::dtype)) body += "op.dtypes = false;\n";
    if (op_.takes(Base::generator)) body += "op.layouts = false;\n";
    return body;
  }

 private:
  /// In place, self keeps its shape: it must not be the one that is broadcast.
  bool same_shape_inplace() const {
    const std::vector<int64_t>& self = sample_.tensor_of(op_.index_of("self")).shape;
    for (const SampleArgument& argument : sample_.arguments) {
      if (argument.kind != SampleArgument::Kind::tensor) continue;
      const std::vector<int64_t>& other = sample_.tensors[argument.first].shape;
      if (other.size() > self.size()) return false;
      for (size_t i = 1; i <= other.size(); ++i) {
        if (other[other.size() - i] != 1 && other[other.size() - i] != self[self.size() - i]) return false;
      }
    }
    // A result of another dtype than self has no place in self.
    return op_.body != Op::Body::pointwise || !op_.condition;
  }

  /// The expression over one element of each tensor; numbers are those of the sample.
  std::string reference() const {
    std::string body;
    size_t next = 0;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      const Argument& argument = op_.schema.arguments[i];
      const std::string value = argument.type.is_tensor() ? fmt::format("x[{}]", next++) : arguments_[i];
      if (mentions(op_.pointwise, argument.name)) body += fmt::format("const double {} = {};\n", argument.name, value);
    }
    body += "return " + reference_cpp(op_.pointwise, functions_) + ";\n";
    return "op.reference = [](const std::vector<double>& x) -> double {\n" + indent(body, 2) + "};\n";
  }

  /// Results for whose dtype `holds`, by index.
  std::string results_of_dtype(const std::function<bool(const Term&)>& holds) const {
    std::vector<std::string> which;
    for (size_t i = 0; i < op_.allocations.size(); ++i) {
      const TermPtr& dtype = op_.allocations[i].dtype;
      if (dtype && holds(*dtype)) which.push_back(std::to_string(i));
    }
    return join(which);
  }
  static bool is_of_statistics(const Term& dtype) {
    return dtype.is(TermKind::helper) && dtype.helper->schema.name == "statistics_dtype";
  }
  static bool is_float64(const Term& dtype) { return dtype.is(TermKind::literal) && dtype.text == "float64"; }

  /// All tensors of records and of what stands beside them.
  std::string results_of_records(const std::string& function) const {
    std::vector<std::string> names, tensors;
    for (const Parameter& outcome : op_.schema.outcomes())
      names.push_back(outcome.is_record() ? outcome.name : op_.result_name(outcome.first));
    for (size_t i = 0; i < op_.schema.results.size(); ++i) tensors.push_back(op_.result_name(i));
    return (names.size() == 1 ? "const auto " + names[0] : "const auto [" + join(names) + "]") + " = " + function + ";\n" +
           cpp::unpack_results(op_) + "return std::vector<Tensor>{" + join(tensors) + "};";
  }

  std::string call(const std::string& member, cpp::Variant variant) const {
    std::vector<std::string> arguments = public_texts(op_, sample_, arguments_);
    if (variant == cpp::Variant::out) arguments.insert(arguments.begin(), "out");
    const std::string function = op_.home.space + "::" + cpp::variant_name(op_, variant) + "(" + join(arguments) + ")";
    std::string body;
    if (op_.takes(Base::generator)) body += "Generator generator(7);\n";
    const bool unused = function.find("t[") == std::string::npos;
    // Case::call is a std::function, of which one for every lambda would take longer to compile than all the rest of the test.
    const std::string head = fmt::format("op.{} = {}[](const std::vector<Tensor>&{}{}) ", member, member == "call" ? "+" : "",
                                         unused ? "" : " t", variant == cpp::Variant::out ? ", const Tensor& out" : "");
    if (variant == cpp::Variant::functional) {
      body += op_.schema.result_groups.empty() ? "return suite::results(" + function + ");" : results_of_records(function);
    } else if (member == "call") {  // writes its argument: the case hands over a copy
      body += function + ";\nreturn std::vector<Tensor>{t[0]};";
    } else {
      body += function + ";";
    }
    std::string text;
    if (member == "call" && variant == cpp::Variant::inplace) text += "op.writes = true;\n";
    const std::string line = head + "{ " + body + " };\n";
    if (body.find('\n') == std::string::npos && line.size() <= 118) return text + line;
    return text + head + "{\n" + indent(body + "\n", 2) + "};\n";
  }

  const Op& op_;
  const Functions& functions_;
  const Sample& sample_;
  size_t number_;
  std::vector<std::string> arguments_;
};

/// Adds the ops that a call of this one records; `seen` are those that were asked.
void collect_recorded(const Op& op, std::set<const Op*>& seen, std::set<std::string>& names) {
  if (!seen.insert(&op).second) return;
  if (!op.is_composite()) names.insert(op.name());
  for (const Op* part : op.is_composite() ? made_of(op) : std::set<const Op*>()) collect_recorded(*part, seen, names);
}

/// A composite in C++ calls what its entry names, as its samples show.
std::string made_of_test(const Op& op, const Functions& functions) {
  std::map<std::string, std::set<std::string>> calls;
  for (const Op* called : op.calls) {
    std::set<const Op*> seen;
    collect_recorded(*called, seen, calls[called->name()]);
  }
  std::vector<std::string> entries;
  for (const auto& [call, recorded] : calls) {
    std::vector<std::string> names;
    for (const std::string& name : recorded) names.push_back(quote(name));
    entries.push_back(fmt::format("{{{}, {{{}}}}}", quote(call), join(names)));
  }
  std::string body = wrap("suite::MadeOf made", {"suite::Calls{" + join(entries) + "}"}, ";\n");
  for (size_t i = 0; i < op.samples.size(); ++i)
    body += "{\n" + indent(SampleWriter(op, functions, op.samples[i], i).statements() + "made.record(op);\n", 2) + "}\n";
  return fmt::format("TEST({}, IsMadeOfWhatItsEntryNames) {{\n{}}}\n\n", pascal_case(op.unique_name()),
                     indent(body + "made.check();\n", 2));
}

/// The headers with the scalar functions of other libraries in plain double.
std::string references(const Program& program) {
  std::string lines;
  for (const auto& [space, headers] : program.headers) {
    if (!headers.reference.empty()) lines += fmt::format("#include \"{}\"\n", headers.reference);
  }
  return lines;
}

}  // namespace

std::string within_tests(const Home& home, const std::string& cases) {
  return fmt::format("namespace {0} {{\n{1}namespace {{\n\n{2}}}  // namespace\n}}  // namespace {0}\n", home.space,
                     home.plain ? "" : "using namespace deckle;\n", cases);
}

void emit(const Program& program, const OutputOptions& options, Files& files, std::vector<std::string>&) {
  for (const Stem& stem : stems_of(program, options)) {
    std::vector<std::string> shards(static_cast<size_t>(stem.shards));
    for (const Op* op : stem.ops) {
      if (op->derived || op->samples.empty()) continue;
      std::string& shard = shards[static_cast<size_t>(shard_of(op->unique_name(), stem.shards))];
      shard += fmt::format("// {}, from {}\n", op->unique_name(), op->at.file.text());
      for (size_t i = 0; i < op->samples.size(); ++i) {
        const SampleWriter writer(*op, program.functions, op->samples[i], i);
        shard += writer.write();
        if (!op->linear_in.empty()) shard += writer.write_linear();
        if (!op->metadata.empty()) shard += writer.write_metadata();
        if (op->autocast.to != AutocastRule::To::nothing) shard += writer.write_autocast();
      }
      if (op->body == Op::Body::composite_cpp && !op->schema.results.empty()) shard += made_of_test(*op, program.functions);
    }
    for (size_t i = 0; i < shards.size(); ++i) {
      const bool made_of = shards[i].find("suite::MadeOf") != std::string::npos;
      const bool claims = shards[i].find("suite::check_linear") != std::string::npos ||
                          shards[i].find("suite::check_metadata") != std::string::npos;
      const bool autocast = shards[i].find("suite::check_autocast") != std::string::npos;
      const std::string text = file_head(stem) +
                               fmt::format(
                                   "#include \"{}\"\n\n#include <gtest/gtest.h>\n\n#include <limits>\n\n"
                                   "#include \"deckle/core/generator.h\"\n#include \"deckle/core/ragged_shape.h\"\n{}{}#include "
                                   "\"tests/ops/reference.h\"\n{}#include \"tests/ops/suite.h\"\n{}\n",
                                   ops_header(stem.home, stem.name), autocast ? "#include \"tests/ops/autocast_checks.h\"\n" : "",
                                   made_of ? "#include \"tests/ops/made_of.h\"\n" : "",
                                   claims ? "#include \"tests/ops/semantic_checks.h\"\n" : "", references(program)) +
                               within_tests(stem.home, shards[i]);
      files.add(fmt::format("tests/{}_{}_test.cpp", stem.name, i), text, stem.source);
    }
  }
}

}  // namespace opgen::tests
