#include "deckle/autograd/autocast.h"

#include "deckle/autograd/public_ops.h"
#include "deckle/base/check.h"
#include "deckle/core/rethrow.h"

namespace deckle {
namespace {

thread_local std::optional<DType> scope_here;

bool is_half(DType dtype) { return dtype == DType::bfloat16 || dtype == DType::float16; }

}  // namespace

Autocast::Autocast(std::optional<DType> dtype) : before_(scope_here) {
  call_as("Autocast", [&] {
    check(!dtype || is_half(*dtype), Argument{"dtype"}, "is {} (expected bfloat16 or float16)", name(dtype.value_or(DType{})));
  });
  scope_here = dtype;
}

Autocast::~Autocast() { scope_here = before_; }

std::optional<DType> autocast_dtype() { return scope_here; }

namespace autograd {

Converted::Converted(Precision precision)
    : scope_(scope_here), wanted_(precision == Precision::half ? scope_.value_or(DType::float32) : DType::float32) {
  scope_here.reset();
}

Converted::~Converted() { scope_here = scope_; }

Tensor Converted::operator()(const Tensor& operand) const {
  if (!scope_ || !operand.defined() || operand.dtype() == wanted_) return operand;
  return is_half(operand.dtype()) || operand.dtype() == DType::float32 ? to(operand, wanted_) : operand;
}

std::vector<Tensor> Converted::operator()(TensorList operands) const {
  std::vector<Tensor> result;
  for (const Tensor& operand : operands) result.push_back((*this)(operand));
  return result;
}

RepeatedRows Converted::operator()(const RowOperand& operand) const { return {(*this)(operand.values()), operand.ragged()}; }

}  // namespace autograd
}  // namespace deckle
