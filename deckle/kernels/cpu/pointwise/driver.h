#pragma once

#include <cstdint>
#include <span>

#include "deckle/kernels/args/number.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/simd/blocks.h"

namespace deckle::kernels::cpu::pointwise {

inline constexpr int kMaxOperands = 24;  // tensors + numbers + outputs

/// Runs a pointwise op over operands of any strides and dtypes, multi-threaded. The block function's inputs are the tensors, then
/// the numbers. All outputs have the sizes of outputs[0]; inputs broadcast to them from the right. `compute` is float32, float64
/// or int64, the type in which blocks compute (halves: float32; integers and bool: int64); operands are converted to it and
/// results from it (to bool: "is not zero"). An output may alias an input only if both have the same address, sizes and strides.
void run(const Blocks& blocks, DType compute, std::span<const View> inputs, std::span<const Number> numbers,
         std::span<const View> outputs);

}  // namespace deckle::kernels::cpu::pointwise
