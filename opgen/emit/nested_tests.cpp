#include "opgen/emit/nested_tests.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/emit/nested.h"
#include "opgen/emit/sample.h"
#include "opgen/text.h"

namespace opgen {
namespace {

constexpr size_t kPointwiseSamples = 2;  // of which each makes a case for every choice of nested operands

/// Writes one sample of one op with one choice of nested arguments.
class NestedSampleWriter {
 public:
  NestedSampleWriter(const Entry& entry, const Sample& sample, const std::set<std::string>& nested)
      : entry_(entry), sample_(sample), nested_(nested) {}

  /// Empty where the sample has nothing to say: a nested argument without dims, no dim where the nested overload wants one.
  std::string write(size_t index) const {
    for (const std::string& name : nested_) {
      const Argument& argument = *entry_.schema.find(name);
      if (!sample_.given(argument) || (!argument.type.list && sample_.shape(name).empty())) return "";
    }
    std::string body = fmt::format("suite::Random random;\nsuite::NestedCase op;\nop.name = {};\n", quoted(entry_.name()));
    std::vector<std::string> operands, dims, arguments;
    for (const Sample::Tensor& tensor : sample_.tensors())
      operands.push_back(
          fmt::format("{{[&] {{ return {}; }}, {}, {}}}", tensor.made, nested_.contains(tensor.argument), tensor.differentiable));
    for (size_t i = 0; i < entry_.schema.arguments.size(); ++i) {
      const Argument& argument = entry_.schema.arguments[i];
      const std::string& text = sample_.arguments()[i];
      if (nested_.contains(argument.name)) {
        arguments.push_back(as_nested(text));
      } else if (!is_dim(argument)) {
        arguments.push_back(text);
      } else if (text == "std::nullopt") {
        if (!argument.type.list) return "";
        const size_t rank = sample_.shape(*nested_.begin()).size();
        arguments.push_back(fmt::format("suite::all_dims({}, shift)", rank));
        for (size_t dim = 0; dim < rank; ++dim) dims.push_back(std::to_string(dim));
      } else {
        arguments.push_back(fmt::format("suite::shifted({}, shift)", text));
        dims.push_back(argument.type.list ? text.substr(text.find('{') + 1, text.find('}') - text.find('{') - 1) : text);
      }
    }
    body += "op.operands = {" + join(operands, ",\n               ") + "};\n";
    if (!dims.empty()) body += "op.dims = {" + join(dims) + "};\n";
    body += lambda("dense", {"const suite::Tensors& t"}, sample_.arguments());
    body += lambda("nested", {"const suite::NestedTensors& n", "const suite::Tensors& t", "int64_t shift"}, arguments);
    const NestedRule& rule = entry_.nested;
    const std::pair<bool, const char*> traits[] = {{entry_.body == Entry::Body::pointwise, "pointwise"},
                                                   {rule.rows, "rows"},
                                                   {rule.kind == NestedRule::Kind::segment, "by_position"},
                                                   {rule.kind == NestedRule::Kind::cpp, "by_hand"},
                                                   {!rule.inserts.empty(), "inserts"}};
    for (const auto& [holds, trait] : traits) {
      if (holds) body += fmt::format("op.{} = true;\n", trait);
    }
    for (size_t kind = 0; kind < kDimKinds.size(); ++kind) {
      if (rule.over[kind].refused)
        body += fmt::format("op.refused[suite::{}] = {};\n", kDimKinds[kind], quoted(rule.over[kind].text));
    }
    if (!sample_.differentiable()) body += "op.derivatives = false;\n";
    if (takes(entry_, Base::dtype)) body += "op.dtypes = false;\n";
    body += "suite::check(op);\n";
    std::string name = fmt::format("Sample{}", index);
    if (nested_.size() > 1 || entry_.body == Entry::Body::pointwise) {
      for (const std::string& argument : nested_) name += pascal_case(argument);
    }
    return fmt::format("TEST(Nested{}, {}) {{\n{}}}\n\n", pascal_case(entry_.unique_name()), name, indent(body, 2));
  }

 private:
  /// t[0], TensorList{t[0], t[1]} -> n[0], NestedTensors{n[0], n[1]}
  static std::string as_nested(std::string text) {
    for (size_t at = 0; (at = text.find("t[", at)) != std::string::npos; ++at) text[at] = 'n';
    if (const std::string list = "TensorList{"; text.starts_with(list)) text.replace(0, list.size(), "suite::NestedTensors{");
    return text;
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
    return fmt::format("op.{} = []({}) {{\n  return suite::results(deckle::{}({}));\n}};\n", member, join(parameters),
                       entry_.name(), call);
  }

  const Entry& entry_;
  const Sample& sample_;
  const std::set<std::string>& nested_;
};

/// The samples that are components: the op's own, or, of an overload that is written by hand, those that its rule gives.
YAML::Node component_samples(const Entry& entry) {
  using Kind = NestedRule::Kind;
  const Kind kind = entry.nested.kind;
  const bool pointwise = kind == Kind::absent && entry.body == Entry::Body::pointwise;
  const bool generated = pointwise || kind == Kind::values || kind == Kind::rows || kind == Kind::segment;
  if (entry.derived || entry.writes_argument() || takes(entry, Base::generator)) return YAML::Node(YAML::NodeType::Undefined);
  return generated ? entry.samples : entry.nested.samples;
}

std::string cases_of(const Entry& entry, const YAML::Node& given, const Library& library) {
  std::string text;
  const YAML::Node samples = given.IsScalar() ? library.sample_sets.at(given.Scalar()) : given;
  size_t index = 0;
  for (const auto& node : samples) {
    if (entry.body == Entry::Body::pointwise && index == kPointwiseSamples) break;
    const Sample sample(entry, node);
    for (const std::set<std::string>& nested : nested_choices(entry))
      text += NestedSampleWriter(entry, sample, nested).write(index);
    ++index;
  }
  return text.empty() ? text : fmt::format("// {}, from {}\n", entry.unique_name(), entry.at.file) + text;
}

}  // namespace

void emit_nested_tests(const Library& library, const OutputOptions& options, Files& files, Problems& problems) {
  std::map<std::string, std::pair<std::string, std::string>> shards;  // path -> stem, cases
  for (const auto& entry : library.entries) {
    if (entry->external) continue;
    const auto given = options.shards.find(entry->stem);
    const int count = given == options.shards.end() ? 1 : given->second;
    const auto path = [&](int shard) { return fmt::format("tests/nested_{}_{}_test.cpp", entry->stem, shard); };
    for (int i = 0; i < count; ++i) shards[path(i)].first = entry->stem;
    const YAML::Node samples = component_samples(*entry);
    if (!samples.IsDefined() || samples.IsNull()) continue;
    try {
      shards[path(shard_of(entry->unique_name(), count))].second += cases_of(*entry, samples, library);
    } catch (const Problem& problem) {
      problems.emplace_back(problem.what());
    }
  }
  for (const auto& [path, shard] : shards) {
    files[path] = file_head(shard.first, library) +
                  fmt::format(
                      "#include \"deckle/nested/generated/{0}.h\"\n\n#include <gtest/gtest.h>\n\n#include <limits>\n\n"
                      "#include \"deckle/ops/generated/{0}.h\"\n#include \"tests/ops/nested_suite.h\"\n\nnamespace deckle "
                      "{{\nnamespace {{\n\n{1}"
                      "}}  // namespace\n}}  // namespace deckle\n",
                      shard.first, shard.second);
  }
}

}  // namespace opgen
