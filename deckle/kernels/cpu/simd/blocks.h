#pragma once

#include <cstdint>

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

}  // namespace deckle::kernels::cpu::pointwise
