#pragma once

#include <initializer_list>
#include <string_view>

#include "deckle/base/error.h"
#include "deckle/core/row_operand.h"
#include "deckle/core/tensor.h"

namespace deckle {

/// An argument of a call, under its name: a tensor or a list of tensors.
class NamedOperand {
 public:
  NamedOperand(std::string_view name, const Tensor& tensor) : name_(name), tensors_(tensor), list_(false) {}
  NamedOperand(std::string_view name, const RowOperand& operand) : NamedOperand(name, operand.values()) {}
  NamedOperand(std::string_view name, TensorList tensors) : name_(name), tensors_(tensors), list_(true) {}

  /// Whether it was given at all.
  bool defined() const { return list_ || tensors_[0].defined(); }
  Operand operand() const;

 private:
  std::string_view name_;
  TensorList tensors_;
  bool list_;
};

/// The catch clause of every generated public function: rethrows the Error in flight as one of `op` on these operands.
[[noreturn, gnu::cold]] void rethrow_from(std::string_view op, std::initializer_list<NamedOperand> operands);

/// body(), whose errors are told as those of `op` on these operands: for public functions that no entry declares.
template <typename Body>
decltype(auto) call_as(std::string_view op, std::initializer_list<NamedOperand> operands, Body&& body) try {
  return body();
} catch (...) {
  rethrow_from(op, operands);
}

}  // namespace deckle
