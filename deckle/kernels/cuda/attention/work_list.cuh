// Work lists: which tile of which sequence, longest first, made on the device so that the host never reads the offsets.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "deckle/kernels/cuda/attention/problem.cuh"

namespace deckle::kernels::cuda::attention {

/// Rows [tile * height, ...) of one sequence, on the side the list was made for.
struct WorkItem {
  int32_t sequence;
  int32_t tile;
};

/// Lies at the head of a list in the workspace.
struct WorkListHeader {
  int32_t next;   // drawn by persistent blocks beyond the first wave
  int32_t count;  // items
  int32_t valid;  // ragged: no offset is below the one before; if one is, there are no items
  int32_t unused[61];
};

enum class Side : int32_t { queries, keys };

/// The list as kernels take it. Dense problems need no list of items: they are computed from the index.
struct WorkList {
  WorkListHeader* header;  // null: items are taken in a fixed order, block b takes b, b + blocks, ...
  const WorkItem* items;   // null: dense
  int32_t dense_tiles;     // tiles of one (sequence, head)
};

/// Bytes of the list of one side cut into tiles of `height` rows: at most rows / height + batch tiles.
int64_t work_list_bytes(const AttentionSizes& sizes, Side side, int height);

/// Upper bound of the number of tiles, all sequences together, without heads.
int64_t max_tiles(const AttentionSizes& sizes, Side side, int height);

/// Whether all tiles of a dense problem cost the same: nothing is masked.
bool equal_costs(const CudaAttentionProblem& problem);

/// One list to be made: `memory` is 256-byte aligned.
struct WorkListRequest {
  Side side;
  int height;
  void* memory;
  bool together = false;  // the tiles of a sequence follow each other, in order; sequences by their longest tile
};

/// Makes two lists of a ragged problem in one launch. Sequences of at most `skip_rows` query rows and keys are left out.
void make_work_lists(const CudaAttentionProblem& problem, const WorkListRequest (&requests)[2], int skip_rows,
                     cudaStream_t stream);

/// Fills the list at `memory` (256-byte aligned) on the stream. Kernels that read it may be launched with programmatic
/// dependence: they call arch::wait_for_dependencies first. Dense problems whose tiles all cost the same get no header.
WorkList make_work_list(const CudaAttentionProblem& problem, Side side, int height, void* memory, cudaStream_t stream);

}  // namespace deckle::kernels::cuda::attention
