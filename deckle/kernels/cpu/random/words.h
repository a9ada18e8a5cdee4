#pragma once

#include <algorithm>
#include <cstdint>

#include "deckle/base/parallel.h"
#include "deckle/base/philox.h"

namespace deckle::kernels::cpu::random {

inline constexpr int64_t kWordsAtOnce = 2048;  // 8 KiB: stays in L1 together with the results

/// words[4 i + j] = word j of block first + i, for `blocks` blocks.
void philox_words(const PhiloxStream& stream, uint64_t first, int64_t blocks, uint32_t* words);

/// Uniform on [0, 1) by steps of 2^-53: the upper bits of two words.
inline double uniform_of_two(const uint32_t* words) {
  const auto upper = static_cast<int32_t>(words[0] >> 5), lower = static_cast<int32_t>(words[1] >> 6);  // vectors convert these
  return (static_cast<double>(upper) * 0x1p26 + static_cast<double>(lower)) * 0x1p-53;
}

/// to[i] = uniform_of_two of words 2 i and 2 i + 1
void uniform_doubles(const uint32_t* words, int64_t count, double* to);

/// Calls `body(begin, end, words)` in parallel on ranges that cover [0, count); words[i - begin] is the word of element i. Ranges
/// begin at multiples of 2,048.
template <typename Body>
void for_each_word(const PhiloxStream& stream, int64_t count, Body&& body) {
  constexpr int64_t kPieces = 8;  // per range: 16,384 elements
  parallel_for((count + kWordsAtOnce - 1) / kWordsAtOnce, kPieces, [&](int64_t first, int64_t last) {
    alignas(64) uint32_t words[kWordsAtOnce];
    for (int64_t piece = first; piece < last; ++piece) {
      const int64_t begin = piece * kWordsAtOnce, end = std::min(begin + kWordsAtOnce, count);
      philox_words(stream, static_cast<uint64_t>(begin / 4), (end - begin + 3) / 4, words);
      body(begin, end, words);
    }
  });
}

}  // namespace deckle::kernels::cpu::random
