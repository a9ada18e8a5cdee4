// Work lists: which tile of which sequence, longest first, made on the device so that the host never reads the offsets.
#pragma once

#include <cuda_runtime_api.h>

#include <climits>
#include <cstdint>
#include <span>

#include "deckle/kernels/cuda/attention/problem.cuh"

namespace deckle::kernels::cuda::attention {

/// Rows [tile * height, ...) of one sequence, on the side the list was made for.
struct WorkItem {
  int32_t sequence;
  int32_t tile;
};

/// Lies at the head of a list in the workspace.
struct WorkListHeader {
  int32_t next;    // drawn by persistent blocks beyond the first wave
  int32_t count;   // items
  int32_t valid;   // ragged: no offset is below the one before; if one is, there are no items
  int32_t longer;  // items, the first ones, of cost above that of one tile of 64 rows
  int32_t unused[60];
};

enum class Side : int32_t { queries, keys };

/// The list as kernels take it. Dense problems need no list of items: they are computed from the index.
struct WorkList {
  const WorkListHeader* header;  // null: dense
  const WorkItem* items;         // null: dense
  int32_t dense_tiles;           // tiles of one (sequence, head)
  int32_t* next;                 // from which blocks draw; null: in order, block b takes b, b + blocks, ...
};

/// Bytes of the list of one side cut into tiles of `height` rows: at most rows / height + batch tiles.
int64_t work_list_bytes(const AttentionSizes& sizes, Side side, int height);

/// Upper bound of the number of tiles, all sequences together, without heads.
int64_t max_tiles(const AttentionSizes& sizes, Side side, int height);

/// Whether all tiles of a dense problem cost the same: nothing is masked.
bool equal_costs(const CudaAttentionProblem& problem);

/// Which sequences a list holds.
struct SequenceFilter {
  int skip_rows = -1;  // not those of at most so many query rows and keys
  int least_queries = 0, most_queries = INT_MAX;
  int most_rows = INT_MAX;  // of query rows and of keys
};

/// One list to be made: `memory` is 256-byte aligned.
struct WorkListRequest {
  Side side;
  int height;
  void* memory;
  SequenceFilter filter;
  bool together = false;    // the tiles of a sequence follow each other, in order; sequences by their longest tile
  bool last_first = false;  // the order of those is from the last to the first
  bool whole = false;       // one item for each sequence that has a row on either side, by the longer of them
};

inline constexpr int kMostLists = 5;

/// Makes up to kMostLists lists of a ragged problem in one launch. Kernels that read them may be launched with programmatic
/// dependence: they call arch::wait_for_dependencies first.
void make_work_lists(const CudaAttentionProblem& problem, std::span<const WorkListRequest> requests, cudaStream_t stream);

/// The list at `memory` as kernels take it. Where others may read it at the same time, a counter set to zero comes with it.
WorkList ragged_work(const void* memory, int32_t* next);

/// How the tiles of a dense problem are drawn. Where all cost the same there is no counter; else it lies at `memory` (256-byte
/// aligned) and is set to zero on the stream.
WorkList dense_work(const CudaAttentionProblem& problem, Side side, int height, void* memory, cudaStream_t stream);

/// The work of a launch of its own, dense or by a list that is made for it at `memory`.
WorkList own_work(const CudaAttentionProblem& problem, Side side, int height, void* memory, cudaStream_t stream);

}  // namespace deckle::kernels::cuda::attention
