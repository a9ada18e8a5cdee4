#pragma once

#include <initializer_list>
#include <string_view>

#include "deckle/base/error.h"
#include "deckle/core/row_operand.h"
#include "deckle/core/tensor.h"

namespace deckle {

/// What errors say of an argument. A type has operands once it has such a function: see nested/nested_tensor.h.
Operand operand_of(std::string_view name, const Tensor& tensor);
Operand operand_of(std::string_view name, const RowOperand& operand);
Operand operand_of(std::string_view name, TensorList tensors);

/// An argument of a call, under its name. A reference; never store one.
class NamedOperand {
 public:
  template <typename T>
  NamedOperand(std::string_view name, const T& value)
      : name_(name),
        value_(&value),
        operand_of_([](std::string_view named, const void* of) { return operand_of(named, *static_cast<const T*>(of)); }) {}

  Operand operand() const { return operand_of_(name_, value_); }

 private:
  std::string_view name_;
  const void* value_;
  Operand (*operand_of_)(std::string_view, const void*);
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
