#include "opgen/emit/tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "opgen/derive/calculus.h"
#include "opgen/emit/cpp_types.h"
#include "opgen/emit/op.h"
#include "opgen/emit/plan.h"
#include "opgen/text.h"

namespace opgen {
namespace {

/// Writes one sample of one op as a test case.
class SampleWriter {
 public:
  SampleWriter(const Entry& entry, const Library& library, const YAML::Node& sample, int index)
      : entry_(entry), library_(library), sample_(sample), index_(index) {}

  std::string write() {
    check_keys();
    for (const Argument& argument : entry_.schema.arguments) arguments_.push_back(argument_text(argument));
    std::string body = "suite::Random random;\nsuite::Case op;\n";
    body += fmt::format("op.name = {};\n", quoted(entry_.unique_name()));
    if (!tensors_.empty()) body += "op.tensors = {" + join(tensors_) + "};\n";
    std::vector<std::string> flags;
    for (const bool flag : differentiable_) flags.emplace_back(flag ? "true" : "false");
    body += "op.differentiable = {" + join(flags) + "};\n";
    body += call("call", entry_.writes_argument() ? Variant::inplace : Variant::functional);
    if (entry_.inplace && same_shape_inplace()) body += call("inplace", Variant::inplace);
    if (entry_.out) body += call("out", Variant::out);
    if (entry_.body == Entry::Body::pointwise) {
      body += "op.pointwise = true;\n";
      if (entry_.dtypes != Dtypes::floating) body += "op.integers = true;\n";
    }
    if (entry_.is_view()) body += "op.view = true;\n";
    if (!differentiable()) body += "op.derivatives = false;\n";
    if (has_dtype_argument()) body += "op.dtypes = false;\n";
    if (takes_generator()) body += "op.layouts = false;\n";
    body += "suite::check(op, random);\n";
    return fmt::format("TEST({}, Sample{}) {{\n{}}}\n\n", pascal_case(entry_.unique_name()), index_, indent(body, 2));
  }

 private:
  [[noreturn]] void fail(const YAML::Node& node, const std::string& message) const {
    const YAML::Mark mark = node.Mark();
    throw Problem({entry_.at.file, mark.line + 1, mark.column + 1}, message);
  }

  void check_keys() const {
    if (!sample_.IsMap()) fail(sample_, "a sample is a map {argument: value}");
    std::vector<std::string> names = argument_names(entry_);
    for (const auto& pair : sample_) {
      const std::string key = pair.first.Scalar();
      if (std::find(names.begin(), names.end(), key) == names.end())
        fail(pair.first, fmt::format("'{}' has no argument named '{}'{}", entry_.name(), key, did_you_mean(key, names)));
    }
  }

  bool given(const Argument& argument) const { return sample_[argument.name].IsDefined() && !sample_[argument.name].IsNull(); }

  bool differentiable() const {
    if (entry_.non_differentiable || !entry_.test_gradients) return false;
    const bool composite = entry_.body == Entry::Body::composite || entry_.body == Entry::Body::composite_cpp;
    if (!composite && !has_node(entry_)) return false;
    for (const Argument& argument : entry_.schema.arguments) {
      if (argument.type.is(Base::dtype) && given(argument) && sample_[argument.name].Scalar() != "float64") return false;
    }
    return std::find(differentiable_.begin(), differentiable_.end(), true) != differentiable_.end();
  }

  bool has_dtype_argument() const {
    return std::any_of(entry_.schema.arguments.begin(), entry_.schema.arguments.end(), [](const Argument& a) { return a.type.is(Base::dtype); });
  }
  bool takes_generator() const {
    return std::any_of(entry_.schema.arguments.begin(), entry_.schema.arguments.end(), [](const Argument& a) { return a.type.is(Base::generator); });
  }

  /// In place, self keeps its shape: it must not be the one that is broadcast.
  bool same_shape_inplace() const {
    std::vector<int64_t> self = shape_of(sample_["self"]);
    for (const Argument& argument : entry_.schema.arguments) {
      if (!argument.type.is_tensor() || !given(argument)) continue;
      const std::vector<int64_t> other = shape_of(sample_[argument.name]);
      if (other.size() > self.size()) return false;
      for (size_t i = 1; i <= other.size(); ++i) {
        if (other[other.size() - i] != 1 && other[other.size() - i] != self[self.size() - i]) return false;
      }
    }
    // A result of another dtype than self has no place in self.
    return entry_.body != Entry::Body::pointwise || !is_boolean(entry_.pointwise, library_);
  }

  std::vector<int64_t> shape_of(const YAML::Node& node) const {
    std::vector<int64_t> shape;
    if (node.IsMap() && node["values"]) {
      YAML::Node level = node["values"];
      while (level.IsSequence()) {
        shape.push_back(static_cast<int64_t>(level.size()));
        if (level.size() == 0) break;
        level.reset(level[0]);
      }
      return shape;
    }
    const YAML::Node sizes = node.IsMap() ? node["shape"] : node;
    if (!sizes.IsDefined() || !sizes.IsSequence()) fail(node, "a tensor is [sizes], {shape: [sizes], ...} or {values: [...]}");
    for (const auto& size : sizes) shape.push_back(size.as<int64_t>());
    return shape;
  }

  static std::string braces(const std::vector<int64_t>& values) {
    std::vector<std::string> parts;
    for (const int64_t value : values) parts.push_back(std::to_string(value));
    return "{" + join(parts) + "}";
  }

  static void collect(const YAML::Node& node, std::vector<std::string>& values) {
    if (node.IsSequence()) {
      for (const auto& element : node) collect(element, values);
    } else {
      values.push_back(node.Scalar());
    }
  }

  std::string dtype_text(const YAML::Node& node) const {
    const std::string text = node.Scalar() == "bool" ? "bool_" : node.Scalar();
    static const std::vector<std::string> kDtypes = {"bool_", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"};
    if (std::find(kDtypes.begin(), kDtypes.end(), text) == kDtypes.end())
      fail(node, fmt::format("no dtype is named '{}'{}", node.Scalar(), did_you_mean(text, kDtypes)));
    return "DType::" + text;
  }

  std::string number(const YAML::Node& node) const {
    const std::string text = node.Scalar();
    if (text == ".inf" || text == "inf") return "std::numeric_limits<double>::infinity()";
    if (text == "-.inf" || text == "-inf") return "-std::numeric_limits<double>::infinity()";
    if (text == ".nan" || text == "nan") return "std::numeric_limits<double>::quiet_NaN()";
    if (text == "pi") return "3.14159265358979323846";
    return text;
  }

  /// Adds a tensor to the case; returns how the call reads it.
  std::string tensor(const Argument& argument, const YAML::Node& node) {
    const bool map = node.IsMap();
    if (map) {
      for (const auto& pair : node) {
        static const std::vector<std::string> kKeys = {"shape", "low", "high", "dtype", "values", "grad"};
        if (std::find(kKeys.begin(), kKeys.end(), pair.first.Scalar()) == kKeys.end())
          fail(pair.first, fmt::format("a sample tensor has no field '{}'{}", pair.first.Scalar(), did_you_mean(pair.first.Scalar(), kKeys)));
      }
    }
    const bool typed = map && node["dtype"];
    const std::string dtype = typed ? dtype_text(node["dtype"]) : "DType::float64";
    const bool floating = dtype.find("float") != std::string::npos;
    const std::string shape = braces(shape_of(node));
    std::string text;
    if (map && node["values"]) {
      std::vector<std::string> values;
      collect(node["values"], values);
      for (std::string& value : values) value = value == "true" ? "1" : value == "false" ? "0" : value;
      text = fmt::format("random.values({}, {{{}}}, {})", shape, join(values), dtype);
    } else if (!floating) {
      const std::string low = map && node["low"] ? number(node["low"]) : "0";
      const std::string high = map && node["high"] ? number(node["high"]) : "2";
      text = fmt::format("random.integers({}, {}, {}, {})", shape, low, high, dtype);
    } else if (map && (node["low"] || node["high"])) {
      text = fmt::format("random.uniform({}, {}, {})", shape, node["low"] ? number(node["low"]) : "0", node["high"] ? number(node["high"]) : "1");
    } else {
      text = fmt::format("random.normal({})", shape);
    }
    tensors_.push_back(text);
    const Rule* rule = entry_.reverse_rule(argument.name);
    const bool constant = (rule && rule->kind == Rule::Kind::non_differentiable) || (map && node["grad"] && node["grad"].Scalar() == "false") || !floating;
    differentiable_.push_back(!constant);
    return fmt::format("t[{}]", tensors_.size() - 1);
  }

  std::string argument_text(const Argument& argument) {
    const YAML::Node node = sample_[argument.name];
    if (!given(argument)) {
      if (argument.type.is(Base::generator)) return "&generator";
      if (argument.default_value && *argument.default_value != "None") {
        const std::string text = default_value(argument);
        return text[0] == '{' ? parameter_type(argument.type) + text : text;
      }
      if (argument.type.is_tensor()) {
        if (!argument.type.optional) fail(sample_, fmt::format("the sample gives no '{}'", argument.name));
        return "Tensor()";
      }
      if (!argument.type.optional) fail(sample_, fmt::format("the sample gives no '{}'", argument.name));
      return "std::nullopt";
    }
    if (argument.type.is_tensor()) return tensor(argument, node);
    if (argument.type.list) {
      std::vector<std::string> parts;
      if (argument.type.base == Base::tensor) {
        for (const auto& element : node) parts.push_back(tensor(argument, element));
        return "TensorList{" + join(parts) + "}";
      }
      if (node.IsSequence()) {
        for (const auto& element : node) parts.push_back(number(element));
      } else {
        parts.push_back(number(node));
      }
      return (argument.type.base == Base::integer ? "Ints{" : "{") + join(parts) + "}";
    }
    switch (argument.type.base) {
      case Base::dtype: return dtype_text(node);
      case Base::string: return quoted(node.Scalar());
      case Base::ragged: {
        if (node["sizes"]) {  // [[2, 3], [0, 4]]: several ragged dims
          std::vector<int64_t> flat;
          for (const auto& sizes : node["sizes"].as<std::vector<std::vector<int64_t>>>()) flat.insert(flat.end(), sizes.begin(), sizes.end());
          return fmt::format("Ragged(std::make_shared<const RaggedShape>(std::vector<int64_t>{}, {}))", braces(flat), node["sizes"][0].size());
        }
        if (!node["lengths"]) fail(node, "a Ragged sample is {lengths: [...]} or {sizes: [[...], ...]}");
        return "Ragged::from_lengths(std::vector<int64_t>" + braces(node["lengths"].as<std::vector<int64_t>>()) + ")";
      }
      case Base::generator: return "&generator";
      case Base::plan: fail(node, "a Plan has no sample: say tests: {gradients: false, because: ...} and test the op by hand");
      default: return number(node);
    }
  }

  std::string call(const std::string& member, Variant variant) const {
    std::vector<std::string> arguments = arguments_;
    if (variant == Variant::out) arguments.insert(arguments.begin(), "out");
    const std::string function = "deckle::" + variant_name(entry_, variant) + "(" + join(arguments) + ")";
    std::string body;
    if (takes_generator()) body += "Generator generator(7);\n";
    const char* parameters = variant == Variant::out ? "const std::vector<Tensor>& t, const Tensor& out" : "const std::vector<Tensor>& t";
    const bool unused = function.find("t[") == std::string::npos;
    const std::string head = fmt::format("op.{} = [](const std::vector<Tensor>&{}{}) ", member, unused ? "" : " t", variant == Variant::out ? ", const Tensor& out" : "");
    (void)parameters;
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
  YAML::Node sample_;
  int index_;
  std::vector<std::string> tensors_;
  std::vector<bool> differentiable_;
  std::vector<std::string> arguments_;
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
    shard.text += fmt::format("// from {}:{}\n", entry->at.file, entry->at.line);
    int index = 0;
    for (const auto& sample : samples) {
      try {
        shard.text += SampleWriter(*entry, library, sample, index++).write();
      } catch (const Problem& problem) {
        problems.emplace_back(problem.what());
      } catch (const YAML::Exception& error) {
        problems.emplace_back(Problem({entry->at.file, error.mark.line + 1, error.mark.column + 1}, "the sample does not fit: " + error.msg).what());
      }
    }
  }
  for (const auto& [path, shard] : shards) {
    std::string text = file_head(shard.stem, library) + fmt::format("#include \"deckle/ops/generated/{}.h\"\n\n#include <gtest/gtest.h>\n\n#include <limits>\n\n"
                                                                   "#include \"deckle/core/generator.h\"\n#include \"deckle/core/ragged_shape.h\"\n#include \"tests/ops/suite.h\"\n\n"
                                                                   "namespace deckle {{\nnamespace {{\n\n", shard.stem);
    files[path] = text + shard.text + "}  // namespace\n}  // namespace deckle\n";
  }
}

}  // namespace opgen
