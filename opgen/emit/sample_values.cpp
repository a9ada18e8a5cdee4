#include "opgen/emit/sample_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "opgen/check/lower.h"
#include "opgen/schema/dtypes.h"
#include "opgen/text.h"

namespace opgen {
namespace {

constexpr size_t kMaxDims = 8;

std::string braces(const std::vector<int64_t>& values) {
  std::vector<std::string> parts;
  for (const int64_t value : values) parts.push_back(std::to_string(value));
  return "{" + join(parts) + "}";
}

}  // namespace

void SampleValues::fail(const YAML::Node& node, const std::string& message) const {
  const YAML::Mark mark = node.Mark();
  throw Problem({file_, mark.line + 1, mark.column + 1}, message);
}

std::string SampleValues::number(const YAML::Node& node, Base base) const {
  if (!node.IsScalar()) fail(node, fmt::format("one {} is wanted here", type_of(base).to_string()));
  const std::string& text = node.Scalar();
  const bool boolean = text == "true" || text == "false";
  if (base == Base::boolean || (base == Base::scalar && boolean)) {
    if (!boolean) fail(node, fmt::format("'{}' is not true or false", text));
    return text;
  }
  if (base == Base::integer) return std::to_string(whole(node));
  if (text == ".inf" || text == "inf") return "std::numeric_limits<double>::infinity()";
  if (text == "-.inf" || text == "-inf") return "-std::numeric_limits<double>::infinity()";
  if (text == ".nan" || text == "nan") return "std::numeric_limits<double>::quiet_NaN()";
  if (text == "pi") return "3.14159265358979323846";
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value)) fail(node, fmt::format("'{}' is no number", text));
  return text;
}

std::string SampleValues::dtype(const YAML::Node& node) const {
  const std::string cpp = node.IsScalar() ? dtype_cpp(node.Scalar()) : "";
  if (cpp.empty())
    fail(node, fmt::format("no dtype is named '{}'{}", node.IsScalar() ? node.Scalar() : "",
                           did_you_mean(node.IsScalar() ? node.Scalar() : "", dtype_names())));
  return cpp;
}

int64_t SampleValues::whole(const YAML::Node& node) const {
  const std::optional<int64_t> value = node.IsScalar() ? whole_number(node.Scalar()) : std::nullopt;
  if (!value) fail(node, fmt::format("'{}' is no whole number", node.IsScalar() ? node.Scalar() : "[...]"));
  return *value;
}

int64_t SampleValues::size(const YAML::Node& node) const {
  const int64_t value = whole(node);
  if (value < 0) fail(node, fmt::format("a size is 0 or more, not {}", value));
  return value;
}

std::vector<int64_t> SampleValues::sizes(const YAML::Node& node) const {
  std::vector<int64_t> result;
  for (const auto& element : node) result.push_back(size(element));
  return result;
}

std::string SampleValues::ragged(const YAML::Node& node) const {
  if (node.IsMap() && node["sizes"] && node["sizes"].IsSequence() &&
      node["sizes"].size() > 0) {  // [[2, 3], [0, 4]]: several ragged dims
    std::vector<int64_t> flat;
    for (const auto& component : node["sizes"]) {
      if (!component.IsSequence() || component.size() != node["sizes"][0].size())
        fail(component, "every component has as many sizes as the first");
      for (const int64_t size : sizes(component)) flat.push_back(size);
    }
    return fmt::format("Ragged(std::make_shared<const RaggedShape>(std::vector<int64_t>{}, {}))", braces(flat),
                       node["sizes"][0].size());
  }
  if (!node.IsMap() || !node["lengths"] || !node["lengths"].IsSequence())
    fail(node, "a Ragged sample is {lengths: [...]} or {sizes: [[...], ...]}");
  return "Ragged::from_lengths(std::vector<int64_t>" + braces(sizes(node["lengths"])) + ")";
}

std::vector<int64_t> SampleValues::shape(const YAML::Node& node) const {
  if (node.IsMap() && node["values"]) {
    std::vector<int64_t> shape;
    for (YAML::Node level = node["values"]; level.IsSequence(); level.reset(level[0])) {
      shape.push_back(static_cast<int64_t>(level.size()));
      if (shape.size() > kMaxDims) fail(node, fmt::format("a tensor has at most {} dims", kMaxDims));
      if (level.size() == 0) break;
    }
    check_rectangular(node["values"], shape, 0);
    return shape;
  }
  const YAML::Node list = node.IsMap() ? node["shape"] : node;
  if (!list.IsDefined() || !list.IsSequence()) fail(node, "a tensor is [sizes], {shape: [sizes], ...} or {values: [...]}");
  return sizes(list);
}

void SampleValues::check_rectangular(const YAML::Node& node, const std::vector<int64_t>& shape, size_t level) const {
  if (level == shape.size()) {
    if (!node.IsScalar()) fail(node, "a value is one number: the lists of 'values' are all equally deep");
    return;
  }
  if (!node.IsSequence() || static_cast<int64_t>(node.size()) != shape[level])
    fail(node, fmt::format("the lists of 'values' are all of one length, and this one is not of {}", shape[level]));
  for (const auto& element : node) check_rectangular(element, shape, level + 1);
}

void SampleValues::collect(const YAML::Node& node, std::vector<std::string>& values) const {
  if (node.IsSequence()) {
    for (const auto& element : node) collect(element, values);
    return;
  }
  const std::string value = number(node, Base::scalar);
  values.push_back(value == "true" ? "1" : value == "false" ? "0" : value);
}

SampleValues::Tensor SampleValues::tensor(const YAML::Node& node) const {
  const std::string sizes = braces(shape(node));
  if (!node.IsMap()) return {fmt::format("random.normal({})", sizes), true};
  static const std::vector<std::string> kKeys = {"shape", "low", "high", "dtype", "values", "grad"};
  for (const auto& pair : node) {
    const std::string& key = pair.first.Scalar();
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
      fail(pair.first, fmt::format("a sample tensor has no field '{}'{}", key, did_you_mean(key, kKeys)));
  }
  const std::string type = node["dtype"] ? dtype(node["dtype"]) : "DType::float64";
  const bool floating = type.find("float") != std::string::npos;
  const bool differentiable = floating && (!node["grad"] || number(node["grad"], Base::boolean) == "true");
  if (node["values"]) {
    std::vector<std::string> values;
    collect(node["values"], values);
    return {fmt::format("random.values({}, {{{}}}, {})", sizes, join(values), type), differentiable};
  }
  const auto bound = [&](const char* key, const char* otherwise, Base base) {
    return node[key] ? number(node[key], base) : otherwise;
  };
  if (!floating) {
    const std::string low = bound("low", "0", Base::integer), high = bound("high", "2", Base::integer);
    if (*whole_number(low) >= *whole_number(high))
      fail(node, fmt::format("integers are below 'high': {} leaves none from {} on", high, low));
    return {fmt::format("random.integers({}, {}, {}, {})", sizes, low, high, type), false};
  }
  if (!node["low"] && !node["high"]) return {fmt::format("random.normal({})", sizes), differentiable};
  return {fmt::format("random.uniform({}, {}, {})", sizes, bound("low", "0", Base::floating), bound("high", "1", Base::floating)),
          differentiable};
}

}  // namespace opgen
