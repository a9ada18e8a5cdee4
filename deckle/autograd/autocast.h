#pragma once

#include <optional>
#include <vector>

#include "deckle/core/row_operand.h"
#include "deckle/core/tensor.h"

namespace deckle {

/// In the scope, on this thread, ops compute in the dtype that their entries say: products, convolutions, norms and attention in
/// `dtype`, bfloat16 or float16; sums, exponentials and losses in float32; all others in those of their operands. Operands that
/// are another of these three dtypes are converted, differentiably: parameters stay as they are, and gradients have their dtype.
/// Derivatives are computed in the dtypes of the forward pass, wherever the scope ends. Without a dtype: not in this scope.
class Autocast {
 public:
  explicit Autocast(std::optional<DType> dtype = DType::bfloat16);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  std::optional<DType> before_;
};

/// That of the innermost scope of this thread, if any.
std::optional<DType> autocast_dtype();

namespace autograd {

/// What an entry says: the dtype of the scope, or float32.
enum class Precision : uint8_t { half, float32 };

/// In an op: its operands as it wants them, in the scope of an Autocast, which it leaves for as long as this object lives; false
/// where there is none. float64 and integers stay what they are.
class Converted {
 public:
  explicit Converted(Precision precision);
  ~Converted();
  Converted(const Converted&) = delete;
  Converted& operator=(const Converted&) = delete;

  explicit operator bool() const { return scope_.has_value(); }

  Tensor operator()(const Tensor& operand) const;
  std::vector<Tensor> operator()(TensorList operands) const;
  RepeatedRows operator()(const RowOperand& operand) const;

 private:
  std::optional<DType> scope_;
  DType wanted_;
};

}  // namespace autograd
}  // namespace deckle
