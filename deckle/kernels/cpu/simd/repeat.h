#pragma once

#include <cstdint>

namespace deckle::kernels::cpu::simd {

/// to[i * times + j] = from[i], j < times, of elements of 2, 4 or 8 bytes: T is an unsigned integer. The two share no memory.
template <typename T>
void repeat_each(const T* from, int64_t count, int64_t times, T* to);
template <>
void repeat_each(const uint16_t* from, int64_t count, int64_t times, uint16_t* to);
template <>
void repeat_each(const uint32_t* from, int64_t count, int64_t times, uint32_t* to);
template <>
void repeat_each(const uint64_t* from, int64_t count, int64_t times, uint64_t* to);

}  // namespace deckle::kernels::cpu::simd
