#pragma once

#include <cstdint>

#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda::pointwise {

/// A tensor, one row for all rows, or a number.
struct FlatOperand {
  char* data;
  float number;
  bool is_number, one_row;
};

/// What a kernel of contiguous operands of one dtype gets. Each launch copies it: for two operands and a result 80 bytes, where
/// Walk has 648.
template <int kOperands>
struct FlatWalk {
  int64_t elements;
  int64_t vectors;  // whole ones, of 16 bytes
  Divisor row;      // by how many vectors a row has
  bool in_rows;     // some operand has one row for all
  FlatOperand operands[kOperands];
};

}  // namespace deckle::kernels::cuda::pointwise
