#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "deckle/kernels/cpu/simd/transpose.h"

namespace deckle::kernels::cpu::indexing {

// Lanes that lie side by side, brought one after another into a buffer and back: what is read and written at random is then one
// lane, which stays in the first cache.

inline constexpr int64_t kFewestTogether = 8, kMostTogether = 64;  // lanes: whole cache lines, next to each other
inline constexpr int64_t kTogetherBytes = 1 << 20;                 // of all buffers: half of a second cache
inline constexpr int64_t kTile = 64;  // elements of the lanes that are moved at a time: as many pages

/// How many of `side` lanes are brought together where each needs `bytes`; 0 where these would be too few.
inline int64_t lanes_in_rows(int64_t side, int64_t bytes) {
  const int64_t fit = std::min(kTogetherBytes / std::max<int64_t>(bytes, 1), kMostTogether);
  const int64_t count = fit / kFewestTogether * kFewestTogether;
  return side < kFewestTogether || count < kFewestTogether ? 0 : std::min(side, count);
}

template <typename T>
using WordOf =
    std::conditional_t<sizeof(T) == 1, uint8_t,
                       std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;

/// rows[lane * length + i] = lanes[i * stride + lane]
template <typename T>
void rows_of_lanes(const T* lanes, int64_t stride, int64_t length, int64_t count, T* rows) {
  using Word = WordOf<T>;
  for (int64_t i = 0; i < length; i += kTile) {
    simd::transpose(reinterpret_cast<const Word*>(lanes + i * stride), stride, std::min(kTile, length - i), count,
                    reinterpret_cast<Word*>(rows + i), length);
  }
}

/// lanes[i * stride + lane] = rows[lane * length + i]
template <typename T>
void lanes_of_rows(const T* rows, int64_t length, int64_t count, T* lanes, int64_t stride) {
  using Word = WordOf<T>;
  for (int64_t i = 0; i < length; i += kTile) {
    simd::transpose(reinterpret_cast<const Word*>(rows + i), length, count, std::min(kTile, length - i),
                    reinterpret_cast<Word*>(lanes + i * stride), stride);
  }
}

}  // namespace deckle::kernels::cpu::indexing
