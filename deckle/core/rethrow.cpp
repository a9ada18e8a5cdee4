#include "deckle/core/rethrow.h"

#include <algorithm>

#include "deckle/core/dims.h"

namespace deckle {
namespace {

std::string shape_of(const Tensor& tensor) { return tensor.defined() ? to_string(tensor.sizes()) : ""; }

}  // namespace

Operand operand_of(std::string_view name, const Tensor& tensor) {
  return {std::string(name), shape_of(tensor), "", {{tensor.impl(), tensor.defined() ? tensor.storage().get() : nullptr}}};
}

Operand operand_of(std::string_view name, const RowOperand& operand) { return operand_of(name, operand.values()); }

Operand operand_of(std::string_view name, TensorList tensors) {
  constexpr size_t kShown = 8;
  Operand operand{std::string(name), "[", "", {}, true};
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Operand element = operand_of("", tensors[i]);
    operand.tensors.push_back(element.tensors[0]);
    if (i < kShown) operand.shape += (i > 0 ? ", " : "") + (tensors[i].defined() ? element.shape : "undefined");
  }
  if (tensors.size() > kShown) operand.shape += ", " + std::to_string(tensors.size() - kShown) + " more";
  operand.shape += "]";
  return operand;
}

void rethrow_from(std::string_view op, std::initializer_list<NamedOperand> operands) {
  std::vector<Operand> given;
  for (const NamedOperand& named : operands) {
    Operand operand = named.operand();
    if (!operand.shape.empty()) given.push_back(std::move(operand));
  }
  rethrow_from(op, std::move(given));
}

}  // namespace deckle
