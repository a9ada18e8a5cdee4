// What the CUDA attention kernels serve in numbers: asked by the plan, before a kernel is chosen, and by each launch.
#pragma once

#include <cstdint>

namespace deckle::kernels {

/// Hopper's backward has no scores of before the cap. It takes tanh from the weight and the log-sum-exp, as (log2 p + lse2) / c,
/// which errs by 2e-6 / c: from this cap on by less than a weight rounds to in 16 bits.
inline constexpr float kLeastSoftCapOfHopperBackward = 1.0f / 64;

/// Grids of the kernels of tensor cores have a head in their second dim, decoding ones a tile of rows of a key head.
inline constexpr int32_t kMostHeads = 65535;

/// Rows of a dense sequence, or of all of a ragged batch.
inline constexpr int64_t kMostRows = (int64_t{1} << 30) - 1;

/// Tiles times heads of a launch, which Hopper's kernels count in 31 bits: more blocks than a launch of these has are left.
inline constexpr int64_t kMostTiles = (int64_t{1} << 31) - (1 << 16);
inline constexpr int kLeastTileRows = 64, kTileRowsOfPairs = 128;

/// Tiles of `height` rows that sequences have at most: `rows` is the length of each, or, ragged, of all together.
constexpr int64_t most_tiles_of(bool ragged, int64_t rows, int64_t sequences, int64_t height) {
  return ragged ? rows / height + sequences : (rows + height - 1) / height * sequences;
}

/// Hopper's lists of the tiles that a mask of ranges or bytes leaves (attention/tile_walks.cuh). They are quadratic in the
/// lengths: a sequence of 524,288 rows and keys has 256 MiB in the backward at D = 128. So are only copies of a ragged bias, and
/// what the gradient of a ragged or a shared one takes: dS of up to 1 GiB, or of one head, and float32 sums (score_gradients.h).
inline constexpr int64_t kMostWalkBytes = int64_t{256} << 20;

/// Rows of the tiles that own lists, and of those in them: queries and keys in the forward, keys and queries in the backward.
struct WalkTiles {
  int owned, walked;
};
constexpr WalkTiles walk_tiles(bool backward, int64_t compiled_dim) {
  if (backward) return compiled_dim == 64 ? WalkTiles{128, 128} : WalkTiles{128, 64};
  return compiled_dim == 64 ? WalkTiles{256, 96} : WalkTiles{128, 96};
}

/// Of the lists of `owners` tiles with `longest` at most, and of as many counts of those that visit a tile as are `visited`.
constexpr int64_t walk_bytes(int64_t owners, int64_t longest, int64_t visited) {
  const auto aligned = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
  return aligned(8 * owners * longest) + aligned(4 * owners) + aligned(4 * visited);
}

/// Shared memory that a block may have on the smallest devices since compute capability 8.0. The portable kernels take no more.
inline constexpr int kLeastSharedBytes = 101376;

/// Shared memory of a block that decodes.
constexpr int decode_shared_bytes(int64_t dim) { return dim <= 64 ? 100352 : dim <= 128 ? 102400 : 204800; }

}  // namespace deckle::kernels
