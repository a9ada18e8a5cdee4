#include "opgen/resolve/sample_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "opgen/ir/build.h"
#include "opgen/schema/dtypes.h"
#include "opgen/text/strings.h"

namespace opgen::sample_values {
namespace {

constexpr size_t kMaxDims = 8;
constexpr double kMaxElements = 1e6;

int64_t whole(const Tree& node) {
  const std::optional<int64_t> value = node.is_scalar() ? whole_number(node.scalar()) : std::nullopt;
  if (!value) node.fail(fmt::format("'{}' is no whole number", node.is_scalar() ? node.scalar() : "[...]"));
  return *value;
}

int64_t size(const Tree& node) {
  const int64_t value = whole(node);
  if (value < 0) node.fail(fmt::format("a size is 0 or more, not {}", value));
  return value;
}

std::vector<int64_t> sizes(const Tree& node) {
  std::vector<int64_t> result;
  for (const Branch& element : node.branches()) result.push_back(size(element.value));
  return result;
}

void check_rectangular(const Tree& node, const std::vector<int64_t>& shape, size_t level) {
  if (level == shape.size()) {
    if (!node.is_scalar()) node.fail("a value is one number: the lists of 'values' are all equally deep");
    return;
  }
  if (!node.is_list() || static_cast<int64_t>(node.size()) != shape[level])
    node.fail(fmt::format("the lists of 'values' are all of one length, and this one is not of {}", shape[level]));
  for (const Branch& element : node.branches()) check_rectangular(element.value, shape, level + 1);
}

std::vector<int64_t> shape_of(const Tree& node) {
  if (node.is_map() && node["values"]) {
    std::vector<int64_t> shape;
    for (Tree level = node["values"]; level.is_list(); level = level.element(0)) {
      shape.push_back(static_cast<int64_t>(level.size()));
      if (shape.size() > kMaxDims) node.fail(fmt::format("a tensor has at most {} dims", kMaxDims));
      if (level.size() == 0) break;
    }
    check_rectangular(node["values"], shape, 0);
    return shape;
  }
  const Tree list = node.is_map() ? node["shape"] : node;
  if (!list.is_list()) node.fail("a tensor is [sizes], {shape: [sizes], ...} or {values: [...]}");
  const std::vector<int64_t> shape = sizes(list);
  if (shape.size() > kMaxDims) node.fail(fmt::format("a tensor has at most {} dims", kMaxDims));
  double elements = 1;
  for (const int64_t one : shape) elements *= static_cast<double>(one);
  if (elements > kMaxElements)
    node.fail(fmt::format("a sample of {:.0f} elements is too large: {:.0f} are allowed", elements, kMaxElements));
  return shape;
}

void collect(const Tree& node, std::vector<std::string>& values) {
  if (!node.is_list()) return values.push_back(number(node, Base::scalar));
  for (const Branch& element : node.branches()) collect(element.value, values);
}

}  // namespace

std::string number(const Tree& node, Base base) {
  if (!node.is_scalar()) node.fail(fmt::format("one {} is wanted here", type_of(base).to_string()));
  const std::string& text = node.scalar();
  const bool boolean = text == "true" || text == "false";
  if (base == Base::boolean || (base == Base::scalar && boolean)) {
    if (!boolean) node.fail(fmt::format("'{}' is not true or false", text));
    return text;
  }
  if (base == Base::integer) return std::to_string(whole(node));
  if (text == ".inf" || text == "inf") return "inf";
  if (text == "-.inf" || text == "-inf") return "-inf";
  if (text == ".nan" || text == "nan") return "nan";
  if (text == "pi") return "pi";
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || is_octal(text) || *end != '\0' || !std::isfinite(value)) node.fail(fmt::format("'{}' is no number", text));
  return text;
}

std::string dtype(const Tree& node) {
  const std::string name = node.is_scalar() ? node.scalar() : "";
  if (dtype_cpp(name).empty()) node.fail(fmt::format("no dtype is named '{}'{}", name, did_you_mean(name, dtype_names())));
  return name;
}

SampleArgument ragged(const Tree& node) {
  SampleArgument result;
  result.kind = SampleArgument::Kind::ragged;
  if (node.is_map() && node["sizes"].is_list() && node["sizes"].size() > 0) {  // [[2, 3], [0, 4]]: several ragged dims
    result.ragged_dims = node["sizes"].element(0).size();
    for (const Branch& component : node["sizes"].branches()) {
      if (!component.value.is_list() || component.value.size() != result.ragged_dims)
        component.value.fail("every component has as many sizes as the first");
      for (const int64_t size : sizes(component.value)) result.sizes.push_back(size);
    }
    return result;
  }
  if (!node.is_map() || !node["lengths"].is_list()) node.fail("a Ragged sample is {lengths: [...]} or {sizes: [[...], ...]}");
  result.sizes = sizes(node["lengths"]);
  result.ragged_dims = 0;
  return result;
}

SampleTensor tensor(const Tree& node) {
  SampleTensor result;
  result.shape = shape_of(node);
  result.differentiable = true;
  if (!node.is_map()) return result;
  static const std::vector<std::string> kKeys = {"shape", "low", "high", "dtype", "values", "grad"};
  for (const Branch& pair : node.branches()) {
    const std::string& key = pair.key.scalar();
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
      pair.key.fail(fmt::format("a sample tensor has no field '{}'{}", key, did_you_mean(key, kKeys)));
  }
  if (node["dtype"]) result.dtype = dtype(node["dtype"]);
  const bool floating = result.dtype.find("float") != std::string::npos;
  result.differentiable = floating && (!node["grad"] || number(node["grad"], Base::boolean) == "true");
  if (node["values"]) {
    result.kind = SampleTensor::Kind::values;
    collect(node["values"], result.values);
    return result;
  }
  const auto bound = [&](const char* key, const char* otherwise, Base base) {
    return node[key] ? number(node[key], base) : otherwise;
  };
  if (!floating) {
    result.kind = SampleTensor::Kind::integers;
    result.low = bound("low", "0", Base::integer);
    result.high = bound("high", "2", Base::integer);
    if (*whole_number(result.low) >= *whole_number(result.high))
      node.fail(fmt::format("integers are below 'high': {} leaves none from {} on", result.high, result.low));
    return result;
  }
  if (!node["low"] && !node["high"]) return result;
  result.kind = SampleTensor::Kind::uniform;
  result.low = bound("low", "0", Base::floating);
  result.high = bound("high", "1", Base::floating);
  const double low = std::strtod(result.low.c_str(), nullptr), high = std::strtod(result.high.c_str(), nullptr);
  if (!(low < high) || std::isinf(low) || std::isinf(high))
    node.fail(fmt::format("values are drawn from 'low' to 'high': from {} to {} there are none", result.low, result.high));
  return result;
}

}  // namespace opgen::sample_values
