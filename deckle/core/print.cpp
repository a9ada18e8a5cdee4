#include <fmt/format.h>

#include <cmath>
#include <ostream>

#include "deckle/base/check.h"
#include "deckle/core/tensor.h"
#include "deckle/core/tensor_impl.h"

namespace deckle {
namespace {

constexpr int64_t kEdge = 3;  // values shown at each end of a dim

std::string number(const Tensor& element) {
  if (element.dtype() == DType::bool_) return element.item<bool>() ? "true" : "false";
  if (is_integral(element.dtype())) return fmt::format("{}", element.item<int64_t>());
  const double value = element.item();
  return std::isnan(value) ? "nan" : fmt::format("{:.4g}", value);  // whatever the sign of the NaN
}

void excerpt(const Tensor& tensor, size_t dim, int64_t offset, size_t indent, std::string& text) {
  if (dim == tensor.sizes().size()) {
    text += number(alias(tensor, {}, {}, offset));
    return;
  }
  const int64_t size = tensor.sizes()[dim];
  const bool innermost = dim + 1 == tensor.sizes().size();
  text += '[';
  for (int64_t i = 0; i < size; ++i) {
    if (i > 0) text += innermost ? ", " : ",\n" + std::string(indent + 1, ' ');
    if (i == kEdge && size > 2 * kEdge) {
      text += "...";
      i = size - kEdge - 1;
      continue;
    }
    excerpt(tensor, dim + 1, offset + i * tensor.strides()[dim], indent + 1, text);
  }
  text += ']';
}

}  // namespace

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "Tensor(undefined)";
  std::string text = fmt::format("Tensor{} {}", to_string(tensor.sizes()), name(tensor.dtype()));
  if (tensor.device().is_cuda()) text += " " + to_string(tensor.device());
  if (tensor.requires_grad()) text += " requires_grad";
  if (tensor.numel() == 0) return text;
  text += '\n';
  excerpt(tensor, 0, tensor.offset(), 0, text);
  return text;
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) { return stream << to_string(tensor); }
std::ostream& operator<<(std::ostream& stream, IntSpan sizes) { return stream << to_string(sizes); }
std::ostream& operator<<(std::ostream& stream, DType dtype) { return stream << name(dtype); }
std::ostream& operator<<(std::ostream& stream, Device device) { return stream << to_string(device); }

}  // namespace deckle

fmt::format_context::iterator fmt::formatter<deckle::Tensor>::format(const deckle::Tensor& tensor,
                                                                     format_context& context) const {
  return fmt::format_to(context.out(), "{}", deckle::to_string(tensor));
}
fmt::format_context::iterator fmt::formatter<deckle::DType>::format(deckle::DType dtype, format_context& context) const {
  return formatter<string_view>::format(deckle::to_string(dtype), context);
}
fmt::format_context::iterator fmt::formatter<deckle::Device>::format(deckle::Device device, format_context& context) const {
  return formatter<string_view>::format(deckle::to_string(device), context);
}
