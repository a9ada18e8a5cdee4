#include "tests/front_door/line.h"

#include <fmt/format.h>

namespace front_door {

using deckle::DType;
using deckle::Tensor;

namespace {

std::string number(const Tensor& element) {
  if (element.dtype() == DType::bool_) return text(element.item<bool>());
  return text(element.item());
}

std::string elements(const Tensor& values) {
  if (values.dim() == 0) return number(values);
  std::string result;
  for (int64_t row = 0; row < values.size(0); ++row) result += (row == 0 ? "" : ", ") + elements(values.select(0, row));
  return "[" + result + "]";
}

/// What the numbers do not show: float32 is taken for granted, and bools are words.
std::string kind(DType dtype) {
  return dtype == DType::float32 || dtype == DType::bool_ ? "" : " " + std::string(deckle::name(dtype));
}

}  // namespace

std::string text(const Tensor& value) {
  if (!value.defined()) return "undefined";
  return elements(value.detach()) + kind(value.dtype());
}

std::string text(const deckle::NestedTensor& value) {
  if (!value.defined()) return "undefined";
  std::string result;
  for (const Tensor& component : value.detach().unbind()) result += (result.empty() ? "" : ", ") + elements(component);
  return "{" + result + "}" + kind(value.dtype());
}

std::string text(deckle::Ints value) { return deckle::to_string(value); }
std::string text(const deckle::Dims& value) { return deckle::to_string(value); }
std::string text(bool value) { return value ? "true" : "false"; }
std::string text(double value) { return fmt::format("{:.4g}", value); }
std::string text(const std::string& value) {
  std::string result;
  for (const char letter : value) result += letter == '\n' ? "\\n" : std::string(1, letter);
  return '"' + result + '"';
}

}  // namespace front_door
