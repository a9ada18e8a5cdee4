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

template <typename Values>
std::string list(const Values& values, const char* separator, const char* open, const char* close) {
  std::string result;
  for (const auto& value : values) result += (result.empty() ? "" : separator) + text(value);
  return open + result + close;
}

}  // namespace

std::string text(const Tensor& value) {
  if (!value.defined()) return "undefined";
  const Tensor plain = value.detach();
  if (plain.dim() == 0) return number(plain);
  std::vector<Tensor> rows;
  for (int64_t row = 0; row < plain.size(0); ++row) rows.push_back(plain.select(0, row));
  return list(rows, ", ", "[", "]");
}

std::string text(const deckle::NestedTensor& value) {
  if (!value.defined()) return "undefined";
  return list(value.detach().unbind(), ", ", "{", "}");
}

std::string text(deckle::Ints value) { return deckle::to_string(value); }
std::string text(const deckle::Dims& value) { return deckle::to_string(value); }
std::string text(bool value) { return value ? "true" : "false"; }
std::string text(double value) {
  const std::string result = fmt::format("{:.4g}", value);
  return result == "-0" ? "0" : result;
}
std::string text(const std::string& value) {
  std::string result;
  for (const char letter : value) result += letter == '\n' ? "\\n" : std::string(1, letter);
  return '"' + result + '"';
}

}  // namespace front_door
