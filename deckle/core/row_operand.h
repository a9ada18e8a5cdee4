#pragma once

#include <utility>

#include "deckle/core/ragged_shape.h"
#include "deckle/core/tensor.h"

namespace deckle {

/// Rows of a tensor, each repeated for the rows of its component: `values` is [components, ...] and stands for [rows, ...]. They
/// are not written out: row r of a pointwise op reads row ragged->row_map().components()[r] of `values`.
struct RepeatedRows {
  Tensor values;
  Ragged ragged;  // undefined: `values` as it is

  RepeatedRows() = default;
  RepeatedRows(Tensor tensor, Ragged repeats = {}) : values(std::move(tensor)), ragged(std::move(repeats)) {}

  DType dtype() const { return values.dtype(); }
  Device device() const { return values.device(); }
};

/// An operand of a pointwise op that has several: a tensor, or repeated rows. A reference; never store one.
class RowOperand {
 public:
  RowOperand(const Tensor& tensor) : values_(&tensor) {}
  RowOperand(const RepeatedRows& rows) : values_(&rows.values), ragged_(rows.ragged.defined() ? &rows.ragged : nullptr) {}

  /// What derivatives are of, and history and tangents belong to.
  const Tensor& values() const { return *values_; }

  bool repeats() const { return ragged_ != nullptr; }
  Ragged ragged() const { return ragged_ != nullptr ? *ragged_ : Ragged(); }
  const Ragged& repeated_by() const { return *ragged_; }  // where it repeats

  DType dtype() const { return values_->dtype(); }
  Device device() const { return values_->device(); }
  /// As the op sees it: with the rows as often as they repeat.
  Dims sizes() const {
    Dims sizes(values_->sizes());
    if (ragged_ != nullptr) sizes[0] = (*ragged_)->rows();
    return sizes;
  }

 private:
  const Tensor* values_;
  const Ragged* ragged_ = nullptr;
};

/// What the gradient of an operand is summed to: by component first if its rows repeat.
struct OperandSizes {
  Dims sizes;
  Ragged ragged;

  OperandSizes() = default;
  explicit OperandSizes(const RowOperand& operand) : sizes(operand.values().sizes()), ragged(operand.ragged()) {}
};

}  // namespace deckle
