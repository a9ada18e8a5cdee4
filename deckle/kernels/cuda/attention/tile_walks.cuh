// Which tiles of scores masks of ranges and of bytes leave something of: lists made on the device, before the kernels that walk
// them. Tiles that a list does not have are neither loaded nor multiplied; of those that it has, many need no mask.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "deckle/kernels/cuda/attention/work_list.cuh"

namespace deckle::kernels::cuda::attention {

/// A tile on a walk: of queries from the first live row on where owners are key tiles, of keys from key 0 on where they are query
/// tiles.
struct Visit {
  int tile;
  int turn_and_partial;  // 2 turn + partial. turn: how many owners before this one visit the tile; partial: a mask forbids
                         // something within it

  __device__ __forceinline__ int turn() const { return turn_and_partial >> 1; }
  __device__ __forceinline__ bool partial() const { return (turn_and_partial & 1) != 0; }
};

/// The walks of the tiles of one side, each in ascending order. In device memory.
struct TileWalks {
  Visit* visits;  // [owners, longest]; null: walks are those of the interval mask
  int* counts;    // [owners]
  int* visitors;  // owners are key tiles: of each query tile, how many visit it
  int longest;    // no walk is longer
  int owned_rows, walked_rows;
  int owned_tiles, walked_tiles;  // dense: of one sequence

  /// Tile `tile` of a sequence among all owners, or all walked: `start` is its first packed row, if ragged.
  static __device__ __forceinline__ int64_t index(int dense_tiles, int height, bool ragged, int sequence, int64_t start,
                                                  int tile) {
    return tile + (ragged ? start / height + sequence : int64_t{sequence} * dense_tiles);
  }
  __device__ __forceinline__ int64_t owner(bool ragged, int sequence, int64_t start, int tile) const {
    return index(owned_tiles, owned_rows, ragged, sequence, start, tile);
  }
  __device__ __forceinline__ int64_t walked(bool ragged, int sequence, int64_t start, int tile) const {
    return index(walked_tiles, walked_rows, ragged, sequence, start, tile);
  }
};

/// Whether a problem has masks that walks are made for.
bool has_walks(const CudaAttentionProblem& problem);

/// Why Hopper's kernels, with walks of `owner`'s tiles of `owned_rows` over the other side's of `walked_rows`, do not serve such
/// a mask; empty: they do, or there is none.
std::string walks_why_not(const CudaAttentionProblem& problem, Side owner, int owned_rows, int walked_rows);

/// Bytes of the walks of `owner`'s tiles of `owned_rows` over the other side's of `walked_rows`.
int64_t tile_walks_bytes(const CudaAttentionProblem& problem, Side owner, int owned_rows, int walked_rows);

/// The same walks at `memory` (256-byte aligned), as kernels take them.
TileWalks tile_walks(const CudaAttentionProblem& problem, Side owner, int owned_rows, int walked_rows, void* memory);

/// Fills them. Two launches.
void make_tile_walks(const CudaAttentionProblem& problem, Side owner, const TileWalks& walks, cudaStream_t stream);

}  // namespace deckle::kernels::cuda::attention
