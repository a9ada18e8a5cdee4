// A tile in shared memory as the copy engine writes it and wgmma reads it: `rows` x `columns` 16-bit values in panels of 64
// columns, a panel row is 128 bytes, and its 16-byte chunks are permuted by the 128-byte swizzle (chunk ^= row % 8). The same
// image serves as an operand whose contraction dim is the column (q kᵀ) or the row (p v), so nothing is ever transposed in
// memory.
#pragma once

#include <cstdint>

#include "deckle/kernels/cuda/arch/tma.cuh"
#include "deckle/kernels/cuda/arch/wgmma.cuh"

namespace deckle::kernels::cuda::tile {

inline constexpr int kPanelColumns = 64;
inline constexpr int kPanelRowBytes = 128;

__host__ __device__ constexpr int panels(int columns) { return (columns + kPanelColumns - 1) / kPanelColumns; }

template <int tile_rows, int tile_columns>
struct alignas(1024) SharedTile {
  static constexpr int rows = tile_rows;
  static constexpr int columns = tile_columns;
  static constexpr int panel_bytes = rows * kPanelRowBytes;
  static constexpr int bytes = panels(columns) * panel_bytes;
  static_assert(rows % 8 == 0, "the swizzle repeats every eight rows");

  unsigned char data[bytes];

  __device__ uint32_t address() const { return arch::shared_address(data); }
};

/// Byte offset of the 16-byte chunk that holds (row, column) within a tile of `rows` rows.
__device__ __forceinline__ uint32_t chunk_offset(int rows, int row, int column) {
  const int panel = column / kPanelColumns, chunk = (column % kPanelColumns) / 8;
  return panel * (rows * kPanelRowBytes) + row * kPanelRowBytes + ((chunk ^ (row & 7)) << 4);
}

/// Loads all panels of a tile, rows from `row` on; one thread. The barrier is told the bytes by the caller.
template <class Tile>
__device__ __forceinline__ void load_tile(const Tile& tile, const CUtensorMap& map, arch::Barrier& barrier, int row, int head,
                                          int batch, arch::CacheHint hint) {
#pragma unroll
  for (int panel = 0; panel < panels(Tile::columns); ++panel) {
    arch::load_box(tile.address() + panel * Tile::panel_bytes, map, barrier, panel * kPanelColumns, row, head, batch, hint);
  }
}

/// Stores 16 rows of a tile, from row `local` on, to rows `row`.. of a map of 16-row boxes; one thread, which commits afterwards.
template <int columns, class Tile>
__device__ __forceinline__ void store_rows(const Tile& tile, int local, const CUtensorMap& map, int row, int head, int batch) {
#pragma unroll
  for (int panel = 0; panel < panels(columns); ++panel) {
    arch::store_box(map, tile.address() + panel * Tile::panel_bytes + local * kPanelRowBytes, panel * kPanelColumns, row, head,
                    batch);
  }
}

/// A wgmma operand in shared memory: the descriptor's low word. The address lies in 16-byte units in bits 0-13, the distance
/// between 64-column panels (read only if the contraction dim is the row) in bits 16-29.
struct Operand {
  uint32_t low;

  /// 128-byte swizzle, eight rows 1024 bytes apart.
  __device__ __forceinline__ uint64_t descriptor(int offset) const { return (uint64_t{0x40000040u} << 32) | (low + offset); }
};

/// The operand that starts at row `row` of a tile at shared address `address` whose panels hold `rows` rows.
__device__ __forceinline__ Operand operand(uint32_t address, int rows, int row = 0) {
  return {((address + row * kPanelRowBytes) >> 4) | (static_cast<uint32_t>(rows * kPanelRowBytes / 16) << 16)};
}

}  // namespace deckle::kernels::cuda::tile
