// The bias of a ragged batch as the Hopper kernels read it, and its gradient as they leave it. Rows of a bias that lies sequence
// by sequence begin anywhere, on which the copy engine and copies of 16 bytes cannot begin: a kernel bound by memory copies it.
//
//   rows    forward: the same planes, each row with zeros up to a multiple of 8 keys
//   panels  backward: of each sequence and head the tiles of 64 keys, one after the other, each with all live rows, the first one
//           first, and zeros up to a multiple of the kernel's tile of queries, and up to a multiple of 128 keys. A row of a panel
//           is 128 bytes, whose 16-byte chunks are permuted as in shared memory (tile/shared_tile.cuh). So the part of a panel
//           that a tile of queries sees is consecutive memory, which one bulk copy moves as it is. dS leaves into panels as well,
//           one set for each head, and a kernel sums these, head after head and sequence after sequence, to the gradient
//
// Where a sequence begins is found without sums over those before it. Each of these has at most
//   (queries + unit - 1) (keys + 127) = queries keys + 127 queries + (unit - 1) (keys + 127)
// elements of panels, so this, of the packed rows before a sequence, is a place where nothing lies.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda::attention {

inline constexpr int kPanelKeys = 64;
inline constexpr int64_t kPanelRowBytes = 2 * kPanelKeys;

/// Of all sequences before one.
struct Before {
  int64_t scores;  // rows times keys of each, or more
  int64_t queries, keys;
  int64_t sequences;
};

/// The row of panels from which on a sequence has its own, within a head; `unit`: rows of the kernel's tile of queries.
__host__ __device__ constexpr int64_t first_panel_row(const Before& b, int unit) {
  const int64_t elements =
      b.scores + (2 * kPanelKeys - 1) * b.queries + (unit - 1) * (b.keys + (2 * kPanelKeys - 1) * b.sequences);
  return (elements + kPanelKeys - 1) / kPanelKeys;
}

/// Rows of each panel of a sequence with so many live rows, and its panels.
__host__ __device__ constexpr int panel_rows(int live_rows, int unit) { return (live_rows + unit - 1) / unit * unit; }
__host__ __device__ constexpr int panel_count(int keys) { return (keys + 2 * kPanelKeys - 1) / (2 * kPanelKeys) * 2; }

/// Of row `row`, counted from the first live one, in panel `panel` of a sequence that begins at `start`.
__host__ __device__ constexpr int64_t panel_row(int64_t start, int rows_of_panel, int panel, int row) {
  return start + int64_t{panel} * rows_of_panel + row;
}

/// The element of a panel's row at which the chunk of key `column` (a multiple of 8) begins; `row` is counted as there.
__host__ __device__ constexpr int panel_chunk(int row, int column) { return ((column % kPanelKeys / 8) ^ (row % 8)) * 8; }

/// The same of rows: the element at which a sequence begins, and elements of each row.
__host__ __device__ constexpr int64_t first_row_element(const Before& b) { return (b.scores + 7 * b.queries + 7) / 8 * 8; }
__host__ __device__ constexpr int64_t row_elements(int keys) { return (int64_t{keys} + 7) / 8 * 8; }

/// Where sequences begin in copies of a bias.
struct BiasLayout {
  const int64_t* offsets;  // of its planes, on the device; null: they are dense
  int64_t all_scores;      // rows times keys of all sequences, or more
  int64_t most_keys;       // of dense planes: no sequence has more
  int heads;               // of the bias, 1 where it has none
  int unit;                // of panels; 0: rows

  /// In rows of panels, or in elements. Whatever the device says of offsets, nothing begins behind the end.
  __host__ __device__ int64_t start(int sequence, int64_t queries_before, int64_t keys_before) const {
    int64_t scores = queries_before * most_keys;
    if (offsets != nullptr) {
      scores = offsets[sequence] / heads;
      scores = scores < 0 ? 0 : scores > all_scores ? all_scores : scores;
    }
    const Before before{scores, queries_before, keys_before, sequence};
    return unit > 0 ? first_panel_row(before, unit) : first_row_element(before);
  }
  /// The end: of the sizes' rows and keys.
  int64_t size(const AttentionSizes& sizes) const {
    const Before all{all_scores, sizes.query_rows, sizes.key_rows, sizes.batch};
    return unit > 0 ? first_panel_row(all, unit) : first_row_element(all);
  }
};

BiasLayout bias_layout(const CudaAttentionProblem& problem, int unit);

/// What kernels of the backward know of panels.
struct BiasPanels {
  const int64_t* starts;  // of each sequence, within a head; null: the batch is dense
  uint16_t* bias;         // [heads of the launch, or 1][head_rows][64]
  uint16_t* gradients;    // dS, [heads of the launch][head_rows][64]; null: not wanted
  int64_t head_rows;
  int has_heads, first_head;  // of the bias; of the launch
};

/// Whether the bias lies sequence by sequence, and has rows and keys.
bool is_ragged(const CudaAttentionPlane& bias);

/// Bytes of the copy with rows; 0: the bias is none that needs one.
int64_t bias_rows_bytes(const CudaAttentionProblem& problem);

/// That copy at `memory` (256-byte aligned): `offsets` tell where sequences begin, of strides `head_stride` is one.
CudaAttentionPlane bias_rows(const CudaAttentionProblem& problem, void* memory);

/// Fills it. One launch.
void make_bias_rows(const CudaAttentionProblem& problem, void* memory, cudaStream_t stream);

/// Fills starts and bias of `panels`, for `heads` of the bias' heads from first_head on (1 and 0 where it has none). One launch.
void make_bias_panels(const CudaAttentionProblem& problem, const BiasPanels& panels, int unit, int heads, cudaStream_t stream);

}  // namespace deckle::kernels::cuda::attention
