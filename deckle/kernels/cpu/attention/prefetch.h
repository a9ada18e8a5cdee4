#pragma once

#include <algorithm>
#include <cstdint>

#include "deckle/kernels/args/attention.h"
#include "deckle/kernels/cpu/attention/geometry.h"

namespace deckle::kernels::cpu {

/// Rows that will be read or written soon, prefetched a few at a time between products, so that memory access overlaps with
/// arithmetic. A burst would not work: the processor drops requests that exceed its queue.
class RowPrefetch {
 public:
  /// Rows [first, first + count) of one head, `n` elements each.
  void add(DType dtype, const AttentionRows& rows, int64_t first, int64_t count, int64_t head, int64_t n, bool write = false) {
    if (count <= 0) return;
    const int64_t item = item_size(dtype);
    parts_[size_++] = {static_cast<const char*>(rows.data) + (first * rows.row_stride + head * rows.head_stride) * item,
                       rows.row_stride * item, count, n * item, write};
    rows_ += count;
  }
  /// Call before the first of `steps` steps.
  void spread(int64_t steps) { rows_per_step_ = (rows_ + steps - 1) / std::max<int64_t>(steps, 1); }
  bool empty() const { return rows_ == 0; }

  void step() {
    for (int64_t n = 0; n < rows_per_step_ && rows_ > 0; ++n, --rows_) {
      while (parts_[at_].rows == 0) ++at_;
      Part& part = parts_[at_];
      for (int64_t byte = 0; byte < part.bytes; byte += 64) {
        if (part.write) {
          __builtin_prefetch(part.next + byte, 1, 3);
        } else {
          __builtin_prefetch(part.next + byte, 0, 2);
        }
      }
      part.next += part.stride;
      --part.rows;
    }
  }

 private:
  struct Part {
    const char* next;
    int64_t stride, rows, bytes;
    bool write;
  };
  Part parts_[4] = {};
  int size_ = 0, at_ = 0;
  int64_t rows_ = 0, rows_per_step_ = 0;
};

/// What the forward prefetches while keys [first_key, first_key + tile_keys) of `all` are its tile: the keys and values of the
/// next tile, or at the end the first rows of the next task; at the start the rows of out.
inline RowPrefetch next_rows(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result,
                             const RowTask& task, const RowTask* next, const KeyRange& all, int64_t first_key,
                             int64_t tile_keys) {
  const Sequence sequence(problem, task.sequence);
  const int64_t D = problem.head_dim, Dv = problem.value_dim, tile_end = first_key + tile_keys;
  const int64_t kv_head = task.head / problem.group();
  RowPrefetch soon;
  if (first_key == all.begin)
    soon.add(problem.dtype, result.out, sequence.first_row + task.first, task.count, task.head, Dv, true);
  if (tile_end < all.end) {
    const int64_t count = std::min(tile_keys, all.end - tile_end);
    soon.add(problem.dtype, x.k, sequence.first_key + tile_end, count, kv_head, D);
    soon.add(problem.dtype, x.v, sequence.first_key + tile_end, count, kv_head, Dv);
  } else if (next != nullptr) {
    const int64_t next_row = problem.q_offsets[next->sequence], next_key = problem.k_offsets[next->sequence],
                  next_head = next->head / problem.group();
    const int64_t count = std::min(tile_keys, problem.keys(next->sequence));
    soon.add(problem.dtype, x.q, next_row + next->first, next->count, next->head, D);
    soon.add(problem.dtype, x.k, next_key, count, next_head, D);
    soon.add(problem.dtype, x.v, next_key, count, next_head, Dv);
  }
  return soon;
}

}  // namespace deckle::kernels::cpu
