#include "opgen/emit/tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "opgen/derive/calculus.h"
#include "opgen/emit/cpp_types.h"
#include "opgen/emit/op.h"
#include "opgen/emit/reference.h"
#include "opgen/emit/sample.h"
#include "opgen/text.h"

namespace opgen {
namespace {

/// Writes one sample of one op as a test case.
class SampleWriter {
 public:
  SampleWriter(const Entry& entry, const Library& library, const YAML::Node& sample, int index)
      : entry_(entry), library_(library), sample_(entry, sample), index_(index) {}

  std::string write() {
    std::string body = "suite::Random random;\nsuite::Case op;\n";
    body += fmt::format("op.name = {};\n", quoted(entry_.unique_name()));
    std::vector<std::string> tensors, flags;
    for (const Sample::Tensor& tensor : sample_.tensors()) {
      tensors.push_back(tensor.made);
      flags.emplace_back(tensor.differentiable ? "true" : "false");
    }
    if (!tensors.empty()) body += "op.tensors = {" + join(tensors) + "};\n";
    body += "op.differentiable = {" + join(flags) + "};\n";
    body += call("call", entry_.writes_argument() ? Variant::inplace : Variant::functional);
    if (entry_.inplace && same_shape_inplace()) body += call("inplace", Variant::inplace);
    if (entry_.out) body += call("out", Variant::out);
    if (entry_.body == Entry::Body::pointwise) {
      body += "op.pointwise = true;\n" + reference();
      if (entry_.dtypes != Dtypes::floating) body += "op.integers = true;\n";
    }
    if (entry_.is_view()) body += "op.view = true;\n";
    if (!entry_.test_strided) body += "op.strided = false;\n";
    if (const std::string which = results_of_dtype("statistics_dtype("); !which.empty())
      body += "op.statistics = {" + which + "};\n";
    if (const std::string which = results_of_dtype(", float64)"); !which.empty())
      body += "op.always_float64 = {" + which + "};\n";
    if (!sample_.differentiable()) body += "op.derivatives = false;\n";
    if (takes(entry_, Base::dtype)) body += "op.dtypes = false;\n";
    if (takes(entry_, Base::generator)) body += "op.layouts = false;\n";
    body += "suite::check(op);\n";
    return fmt::format("TEST({}, Sample{}) {{\n{}}}\n\n", pascal_case(entry_.unique_name()), index_, indent(body, 2));
  }

 private:
  /// In place, self keeps its shape: it must not be the one that is broadcast.
  bool same_shape_inplace() const {
    std::vector<int64_t> self = sample_.shape("self");
    for (const Argument& argument : entry_.schema.arguments) {
      if (!argument.type.is_tensor() || !sample_.given(argument)) continue;
      const std::vector<int64_t> other = sample_.shape(argument.name);
      if (other.size() > self.size()) return false;
      for (size_t i = 1; i <= other.size(); ++i) {
        if (other[other.size() - i] != 1 && other[other.size() - i] != self[self.size() - i]) return false;
      }
    }
    // A result of another dtype than self has no place in self.
    return entry_.body != Entry::Body::pointwise || !is_boolean(entry_.pointwise, library_);
  }

  /// The expression over one element of each tensor; numbers are those of the sample.
  std::string reference() const {
    std::string body;
    size_t next = 0;
    for (size_t i = 0; i < sample_.arguments().size(); ++i) {
      const Argument& argument = entry_.schema.arguments[i];
      const std::string value = argument.type.is_tensor() ? fmt::format("x[{}]", next++) : sample_.arguments()[i];
      if (mentions(entry_.pointwise, argument.name)) body += fmt::format("const double {} = {};\n", argument.name, value);
    }
    body += "return " + reference_cpp(entry_.pointwise) + ";\n";
    return "op.reference = [](const std::vector<double>& x) -> double {\n" + indent(body, 2) + "};\n";
  }

  /// Results whose allocation rule says so of their dtype, by index.
  std::string results_of_dtype(const std::string& rule) const {
    std::vector<std::string> which;
    for (size_t i = 0; i < entry_.result_rules.size(); ++i) {
      if (to_string(entry_.result_rules[i]).find(rule) != std::string::npos) which.push_back(std::to_string(i));
    }
    return join(which);
  }

  std::string call(const std::string& member, Variant variant) const {
    std::vector<std::string> arguments = sample_.arguments();
    if (variant == Variant::out) arguments.insert(arguments.begin(), "out");
    const std::string function = "deckle::" + variant_name(entry_, variant) + "(" + join(arguments) + ")";
    std::string body;
    if (takes(entry_, Base::generator)) body += "Generator generator(7);\n";
    const bool unused = function.find("t[") == std::string::npos;
    const std::string head = fmt::format("op.{} = [](const std::vector<Tensor>&{}{}) ", member, unused ? "" : " t",
                                         variant == Variant::out ? ", const Tensor& out" : "");
    if (variant == Variant::functional) {
      body += "return suite::results(" + function + ");";
    } else if (member == "call") {  // writes its argument: the case hands over a copy
      body += function + ";\nreturn std::vector<Tensor>{t[0]};";
    } else {
      body += function + ";";
    }
    std::string text;
    if (member == "call" && variant == Variant::inplace) text += "op.writes = true;\n";
    const std::string line = head + "{ " + body + " };\n";
    if (body.find('\n') == std::string::npos && line.size() <= 118) return text + line;
    return text + head + "{\n" + indent(body + "\n", 2) + "};\n";
  }

  const Entry& entry_;
  const Library& library_;
  Sample sample_;
  int index_;
};

}  // namespace

void emit_tests(const Library& library, const OutputOptions& options, Files& files, Problems& problems) {
  struct Shard {
    std::string stem, text;
    bool generator = false, ragged = false;
  };
  std::map<std::string, Shard> shards;
  for (const auto& entry : library.entries) {
    if (entry->external) continue;
    const auto given = options.shards.find(entry->stem);
    const int count = given == options.shards.end() ? 1 : given->second;
    for (int i = 0; i < count; ++i) shards[fmt::format("tests/{}_{}_test.cpp", entry->stem, i)].stem = entry->stem;
    if (entry->derived || !entry->samples.IsDefined() || entry->samples.IsNull()) continue;
    Shard& shard = shards[fmt::format("tests/{}_{}_test.cpp", entry->stem, shard_of(entry->unique_name(), count))];
    const YAML::Node samples = entry->samples.IsScalar() ? library.sample_sets.at(entry->samples.Scalar()) : entry->samples;
    shard.text += fmt::format("// {}, from {}\n", entry->unique_name(), entry->at.file);
    int index = 0;
    for (const auto& sample : samples) {
      try {
        shard.text += SampleWriter(*entry, library, sample, index++).write();
      } catch (const Problem& problem) {
        problems.emplace_back(problem.what());
      }
    }
  }
  for (const auto& [path, shard] : shards) {
    std::string text = file_head(shard.stem, library) +
                       fmt::format(
                           "#include \"deckle/ops/generated/{}.h\"\n\n#include <gtest/gtest.h>\n\n#include <limits>\n\n"
                           "#include \"deckle/core/generator.h\"\n#include \"deckle/core/ragged_shape.h\"\n#include "
                           "\"tests/ops/reference.h\"\n#include \"tests/ops/suite.h\"\n\n"
                           "namespace deckle {{\nnamespace {{\n\n",
                           shard.stem);
    files[path] = text + shard.text + "}  // namespace\n}  // namespace deckle\n";
  }
}

}  // namespace opgen
