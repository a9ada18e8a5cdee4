#pragma once

#include <cstdint>
#include <span>

#include "deckle/kernels/args/number.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu::pointwise {

/// The inner loop of one pointwise op for one compute type, generated per instruction set:
///   outputs[o][i] = f(inputs[0][i], inputs[1][i], ...)  for i in [0, n)
/// An input with is_scalar set is one value, used for every i. An output may be the same array as an input, so each
/// element is read before it is written and written once. No alignment is promised.
template <typename T>
using BlockFunction = void (*)(int64_t n, const T* const* inputs, const uint8_t* is_scalar, T* const* outputs);

/// The block functions of one op; one that is null is an error at the call.
struct Blocks {
  BlockFunction<float> f32 = nullptr;
  BlockFunction<double> f64 = nullptr;
  BlockFunction<int64_t> i64 = nullptr;
};

inline constexpr int kMaxOperands = 24;  // tensors + numbers + outputs

/// Runs a pointwise op over operands of any strides and dtypes, with threads. The block function's inputs are the tensors,
/// then the numbers. All outputs have the sizes of outputs[0]; inputs broadcast to them from the right. `compute` is
/// float32, float64 or int64, the type in which blocks compute (halves: float32; integers and bool: int64); operands are
/// converted to it and results from it (to bool: "is not zero"). An output may share memory with an input only exactly.
void run(const Blocks& blocks, DType compute, std::span<const View> inputs, std::span<const Number> numbers,
         std::span<const View> outputs);

}  // namespace deckle::kernels::cpu::pointwise
