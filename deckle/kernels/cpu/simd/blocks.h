#pragma once

#include <cstdint>
#include <type_traits>

#include "deckle/base/half.h"

namespace deckle::kernels::cpu::pointwise {

/// How an input of a block function lies: one element after another, or one value, used for every i, in the type that the block
/// computes in or as an element.
enum Input : uint8_t { kElements, kNumber, kElement };

/// The type in which blocks of T compute, and in which their numbers are.
template <typename T>
using Computed = std::conditional_t<std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>, float, T>;

/// The inner loop of one pointwise op for one type of elements, generated per instruction set:
///   outputs[o][i] = f(inputs[0][i], inputs[1][i], ...)  for i in [0, n)
/// An input with is_scalar set is one value (Input); a number of halves' blocks is a float. An output may be the same array as
/// an input, so each element is read before it is written and written once. No alignment is promised.
template <typename T>
using BlockFunction = void (*)(int64_t n, const T* const* inputs, const uint8_t* is_scalar, T* const* outputs);

/// The block functions of one op; one that is null is an error at the call, but for bf16 and f16, whose elements then go through
/// f32, and i32, whose go through i64. i32 takes numbers within int32, and gives what i64 does modulo 2^32.
struct Blocks {
  BlockFunction<float> f32 = nullptr;
  BlockFunction<double> f64 = nullptr;
  BlockFunction<int64_t> i64 = nullptr;
  BlockFunction<bfloat16> bf16 = nullptr;
  BlockFunction<float16> f16 = nullptr;
  BlockFunction<int32_t> i32 = nullptr;
};

}  // namespace deckle::kernels::cpu::pointwise
