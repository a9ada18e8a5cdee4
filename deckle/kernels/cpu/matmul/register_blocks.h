#pragma once

#include <cstdint>

#include "deckle/kernels/cpu/simd/table.h"

namespace deckle::kernels::cpu::matmul {

/// c[i c_row + j] = start[i start_row + j] + the sum over p < k of a[p rows + i] b[p b_row + j], for i < rows of the block and
/// j < its vectors' lanes but for the last vector, of which `last` lanes are read and written. A null start counts as zeros; it
/// may be c.
template <typename T>
struct BlockArgs {
  int64_t k;
  const T* a;
  const T* b;
  int64_t b_row;
  T* c;
  int64_t c_row;
  const T* start;
  int64_t start_row;
  int64_t last;
  const T* next;       // fetched into the second cache meanwhile, a line each step of k
  int64_t next_lines;  // so many
};
template <typename T>
using BlockProduct = void(const BlockArgs<T>& args);

/// to[p to_row + i] = from[i lane_stride + p k_stride] for i < width and p < k. Up to kPanelSpare elements behind the last may be
/// written.
template <typename T>
using PackPanel = void(const T* from, int64_t lane_stride, int64_t k_stride, int64_t width, int64_t k, T* to, int64_t to_row);

inline constexpr int64_t kPanelSpare = 16;  // whole lines: panels begin where lines do
inline constexpr int kMostBlockRows = 14;

template <typename T>
struct RegisterBlocks {
  int64_t rows = 0;                                   // of the largest block; 0: this instruction set has none
  int64_t lanes = 0;                                  // of a vector; the largest block has two
  BlockProduct<T>* products[kMostBlockRows][2] = {};  // [rows - 1][vectors - 1]
  PackPanel<T>* pack = nullptr;

  int64_t cols() const { return 2 * lanes; }
};

/// For the strongest allowed instruction set.
const RealTable<RegisterBlocks>& register_blocks();

}  // namespace deckle::kernels::cpu::matmul
