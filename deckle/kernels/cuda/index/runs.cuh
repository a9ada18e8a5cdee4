#pragma once

// Runs of equal keys in a sorted order. One of more than kPart elements is added up in parts, each where the order is cut, every
// kPart elements; then the parts, in order: a key that comes often does not keep one thread busy, and sums have the same bits in
// every run of a program.
#include <cstdint>

namespace deckle::kernels::cuda::index {

inline constexpr int64_t kPart = 512;

inline int64_t parts_of(int64_t count) { return (count + kPart - 1) / kPart; }

__device__ inline int64_t first_not_below(const uint32_t* keys, int64_t count, int64_t key) {
  int64_t low = 0, high = count;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (keys[middle] < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/// What a piece of the order has of a long run. A piece has two of these at most, that of its first element and that of its last.
struct RunPart {
  int64_t begin = 0, end = 0;  // empty: none

  __device__ RunPart(const uint32_t* keys, int64_t count, int64_t piece, bool of_last) {
    const int64_t start = piece * kPart, stop = start + kPart < count ? start + kPart : count;
    const int64_t key = keys[of_last ? stop - 1 : start];
    if (of_last && keys[start] == key) return;  // it is the first's
    const int64_t first = first_not_below(keys, count, key), behind = first_not_below(keys, count, key + 1);
    if (behind - first <= kPart) return;
    begin = first > start ? first : start;
    end = behind < stop ? behind : stop;
  }
};

/// Which of the two parts of a piece is that of a long run of `key`, which has elements in it.
__device__ inline int64_t part_of(const uint32_t* keys, int64_t piece, int64_t key) {
  return 2 * piece + (keys[piece * kPart] == key ? 0 : 1);
}

}  // namespace deckle::kernels::cuda::index
