#include "deckle/core/rethrow.h"

#include <algorithm>

#include "deckle/core/dims.h"

namespace deckle {
namespace {

TensorId id_of(const Tensor& tensor) { return {tensor.impl(), tensor.defined() ? tensor.storage().get() : nullptr}; }

std::string shape_of(const Tensor& tensor) { return tensor.defined() ? to_string(tensor.sizes()) : "undefined"; }

}  // namespace

Operand NamedOperand::operand() const {
  constexpr size_t kShown = 8;  // of a list
  Operand operand{std::string(name_), ""};
  operand.list = list_;
  for (const Tensor& tensor : tensors_) operand.tensors.push_back(id_of(tensor));
  if (!list_) {
    operand.shape = shape_of(tensors_[0]);
    return operand;
  }
  operand.shape = "[";
  for (size_t i = 0; i < std::min(kShown, tensors_.size()); ++i) operand.shape += (i > 0 ? ", " : "") + shape_of(tensors_[i]);
  if (tensors_.size() > kShown) operand.shape += ", " + std::to_string(tensors_.size() - kShown) + " more";
  operand.shape += "]";
  return operand;
}

void rethrow_from(std::string_view op, std::initializer_list<NamedOperand> operands) {
  std::vector<Operand> shapes;
  for (const NamedOperand& operand : operands) {
    if (operand.defined()) shapes.push_back(operand.operand());
  }
  rethrow_from(op, std::move(shapes));
}

}  // namespace deckle
