#pragma once

#include <cstdint>

namespace deckle::kernels::cpu::simd {

/// to[i] = from[count - 1 - i], of elements of 1, 2, 4 or 8 bytes: T is an unsigned integer. The two share no memory.
template <typename T>
void reverse(const T* from, int64_t count, T* to);
template <>
void reverse(const uint8_t* from, int64_t count, uint8_t* to);
template <>
void reverse(const uint16_t* from, int64_t count, uint16_t* to);
template <>
void reverse(const uint32_t* from, int64_t count, uint32_t* to);
template <>
void reverse(const uint64_t* from, int64_t count, uint64_t* to);

}  // namespace deckle::kernels::cpu::simd
