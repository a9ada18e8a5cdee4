#include "opgen/emit/tests/nested_tests.h"

#include <fmt/format.h>

#include "opgen/analyze/calls.h"
#include "opgen/emit/common/layout.h"
#include "opgen/emit/nested/choices.h"
#include "opgen/emit/tests/sample.h"
#include "opgen/emit/tests/tests.h"
#include "opgen/text/strings.h"

namespace opgen::tests {
namespace {

constexpr size_t kPointwiseSamples = 2;  // of which each makes a case for every choice of nested operands

/// Writes one sample of one op with one choice of nested arguments.
class NestedSampleWriter {
 public:
  NestedSampleWriter(const Op& op, const Sample& sample, const std::set<std::string>& nested)
      : op_(op), sample_(sample), nested_(nested) {}

  std::string write(size_t number) const {
    const std::string body = statements();
    return body.empty() ? "" : test(number, "", body + "suite::check(op);\n");
  }

  /// In the scope of an Autocast the overload is itself on converted operands.
  std::string write_autocast(size_t number) const {
    const std::string body = statements();
    if (body.empty()) return "";
    return test(number, "ConvertsItsOperandsInAScope", body + autocast_check(op_, sample_));
  }

 private:
  /// What makes the case `op`. Empty where the sample has nothing to say: a nested argument without dims, no dim where the nested
  /// overload wants one.
  std::string statements() const {
    for (const std::string& name : nested_) {
      const size_t index = op_.index_of(name);
      if (!sample_.arguments[index].given) return "";
      if (!op_.schema.arguments[index].type.list && sample_.tensor_of(index).shape.empty()) return "";
    }
    std::string body = fmt::format("suite::NestedCase op;\nop.name = {};\n", quote(op_.name()));
    std::vector<std::string> operands, dims, arguments;
    for (const SampleTensor& tensor : sample_.tensors)
      operands.push_back(fmt::format("{{[](suite::Random& random) {{ return {}; }}, {}, {}}}", random_call(tensor),
                                     nested_.contains(op_.schema.arguments[tensor.argument].name), tensor.differentiable));
    for (size_t i = 0; i < op_.schema.arguments.size(); ++i) {
      const Argument& argument = op_.schema.arguments[i];
      if (nested_.contains(argument.name)) {
        arguments.push_back(nested_argument_text(op_, sample_, i));
      } else if (!is_dim(argument)) {
        arguments.push_back(argument_text(op_, sample_, i));
      } else if (sample_.arguments[i].kind == SampleArgument::Kind::absent) {
        if (!argument.type.list) return "";
        const size_t rank = sample_.tensor_of(op_.index_of(*nested_.begin())).shape.size();
        arguments.push_back(fmt::format("suite::all_dims({}, shift)", rank));
        for (size_t dim = 0; dim < rank; ++dim) dims.push_back(std::to_string(dim));
      } else {
        arguments.push_back(fmt::format("suite::shifted({}, shift)", argument_text(op_, sample_, i)));
        for (const std::string& dim : dims_of(op_, sample_, i)) dims.push_back(dim);
      }
    }
    body += "op.operands = {" + join(operands, ",\n               ") + "};\n";
    if (!dims.empty()) body += "op.dims = {" + join(dims) + "};\n";
    body += lambda("dense", {"const suite::Tensors& t"}, public_texts(op_, sample_, argument_texts(op_, sample_)));
    body += lambda("nested", {"const suite::NestedTensors& n", "const suite::Tensors& t", "int64_t shift"},
                   public_texts(op_, sample_, arguments));
    const NestedRule& rule = op_.nested;
    const std::pair<bool, const char*> traits[] = {{op_.body == Op::Body::pointwise, "pointwise"},
                                                   {rule.rows, "rows"},
                                                   {rule.kind == NestedRule::Kind::segment, "by_position"},
                                                   {rule.kind == NestedRule::Kind::cpp, "by_hand"},
                                                   {!rule.inserts.empty(), "inserts"},
                                                   {waits_for_device(op_), "host"}};
    for (const auto& [holds, trait] : traits) {
      if (holds) body += fmt::format("op.{} = true;\n", trait);
    }
    for (size_t kind = 0; kind < kDimKinds.size(); ++kind) {
      if (rule.over[kind].refused)
        body += fmt::format("op.refused[suite::{}] = {};\n", kDimKinds[kind], quote(rule.over[kind].text));
    }
    if (!sample_.differentiable) body += "op.derivatives = false;\n";
    if (op_.takes(Base::dtype)) body += "op.dtypes = false;\n";
    return body;
  }

  std::string test(size_t number, const std::string& promise, const std::string& body) const {
    std::string name = fmt::format("Sample{}", number);
    if (nested_.size() > 1 || op_.body == Op::Body::pointwise || !op_.nested.choices.empty()) {
      for (const std::string& argument : nested_) name += pascal_case(argument);
    }
    return fmt::format("TEST(Nested{}, {}{}) {{\n{}}}\n\n", pascal_case(op_.unique_name()), name, promise, indent(body, 2));
  }

  /// `op.member = [](parameters) { return suite::results(deckle::op(arguments)); };` with the names of parameters that are read.
  std::string lambda(const std::string& member, std::vector<std::string> parameters,
                     const std::vector<std::string>& arguments) const {
    const std::string call = join(arguments);
    for (std::string& parameter : parameters) {
      const size_t space = parameter.rfind(' ');
      const std::string name = parameter.substr(space + 1), read = name == "shift" ? name : name + "[";
      if (call.find(read) == std::string::npos) parameter.resize(space);
    }
    const char* results = member == "nested" && op_.nested.dense ? "dense_results" : "results";
    return fmt::format("op.{} = []({}) {{\n  return suite::{}({}::{}({}));\n}};\n", member, join(parameters), results,
                       op_.home.space, op_.name(), call);
  }

  const Op& op_;
  const Sample& sample_;
  const std::set<std::string>& nested_;
};

/// The samples that are components: the op's own, or, of an overload that is written by hand, those that its rule gives.
const std::vector<Sample>& component_samples(const Op& op) {
  using Kind = NestedRule::Kind;
  static const std::vector<Sample> none;
  const Kind kind = op.nested.kind;
  const bool pointwise = kind == Kind::absent && op.body == Op::Body::pointwise;
  const bool generated = pointwise || kind == Kind::values || kind == Kind::rows || kind == Kind::segment;
  if (op.derived || op.writes_argument() || op.takes(Base::generator)) return none;
  return generated ? op.samples : op.nested_samples;
}

/// Of overloads that are written by hand all samples; of the others, which call the op on values, one.
std::string autocast_cases(const Op& op) {
  if (op.autocast.to == AutocastRule::To::nothing || op.takes(Base::generator)) return "";
  const bool by_hand = op.nested.kind == NestedRule::Kind::cpp;
  const std::vector<Sample>& own = component_samples(op);
  const std::vector<Sample>& samples = own.empty() && by_hand ? op.samples : own;
  std::string text;
  size_t number = 0;
  for (const Sample& sample : samples) {
    for (const std::set<std::string>& nested : nested_choices(op))
      text += NestedSampleWriter(op, sample, nested).write_autocast(number);
    ++number;
    if (!by_hand && !text.empty()) break;
  }
  return text;
}

/// What an overload that is written by hand is to refuse.
std::string checks_of(const Op& op) {
  if (op.nested.kind != NestedRule::Kind::cpp || op.checks.empty()) return "";
  std::vector<std::string> checks;
  for (const Check& check : op.checks) {
    std::string says = check.of.empty() ? "" : check.of + " ";
    for (const Check::Piece& piece : check.message) says += piece.value ? "..." : piece.text;
    checks.push_back(quote(says));
  }
  return wrap(fmt::format("const suite::ChecksOf kChecksOf{}", pascal_case(op.unique_name())),
              {quote(op.name()), "{" + join(checks) + "}"}, ";\n\n");
}

std::string cases_of(const Op& op) {
  std::string text;
  size_t number = 0;
  for (const Sample& sample : component_samples(op)) {
    if (op.body == Op::Body::pointwise && number == kPointwiseSamples) break;
    for (const std::set<std::string>& nested : nested_choices(op)) text += NestedSampleWriter(op, sample, nested).write(number);
    ++number;
  }
  text += autocast_cases(op) + checks_of(op);
  return text.empty() ? text : fmt::format("// {}, from {}\n", op.unique_name(), op.at.file.text()) + text;
}

}  // namespace

void emit_nested(const Program& program, const OutputOptions& options, Files& files, std::vector<std::string>&) {
  for (const Stem& stem : stems_of(program, options)) {
    std::vector<std::string> shards(static_cast<size_t>(stem.shards));
    for (const Op* op : stem.ops) shards[static_cast<size_t>(shard_of(op->unique_name(), stem.shards))] += cases_of(*op);
    for (size_t i = 0; i < shards.size(); ++i) {
      const std::string text =
          file_head(stem) +
          fmt::format(
              "#include \"{}\"\n\n#include <gtest/gtest.h>\n\n#include <limits>\n\n#include \"{}\"\n#include "
              "\"tests/ops/nested_autocast.h\"\n#include \"tests/ops/nested_coverage.h\"\n#include "
              "\"tests/ops/nested_suite.h\"\n\n",
              nested_header(stem.home, stem.name), ops_header(stem.home, stem.name)) +
          within_tests(stem.home, shards[i]);
      files.add(fmt::format("tests/nested_{}_{}_test.cpp", stem.name, i), text, stem.source);
    }
  }
}

}  // namespace opgen::tests
