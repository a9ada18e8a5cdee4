#pragma once

#include <algorithm>
#include <cstdint>

#include "deckle/kernels/args/attention.h"
#include "deckle/kernels/cpu/attention/chunks.h"
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
  Part parts_[6] = {};
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

/// Where a key-stationary pass goes on: keys of `task` from `first`. Nowhere without a task.
struct KeyBlock {
  const KeyTask* task = nullptr;
  int64_t first = 0;
};

/// What the backward prefetches while rows [row, row + tile_rows) of query head h are its tile against `keys` of `task`: the next
/// rows of q and dout; at the end of the block of keys the rows of dk and dv, and what `next` begins with.
inline RowPrefetch next_gradient_rows(const AttentionProblem& problem, const AttentionOperands& x,
                                      const AttentionResults& cotangent, const AttentionOperands& gradient, const KeyTask& task,
                                      const KeyRange& keys, int64_t h, int64_t row, int64_t tile_rows, const KeyBlock& next) {
  const int64_t D = problem.head_dim, Dv = problem.value_dim, group = problem.group();
  RowPrefetch soon;
  const auto add_rows = [&](const Sequence& sequence, int64_t head, int64_t first) {
    const int64_t count = std::min(tile_rows, sequence.rows - first);
    soon.add(problem.dtype, x.q, sequence.first_row + first, count, head, D);
    soon.add(problem.dtype, cotangent.out, sequence.first_row + first, count, head, Dv);
  };
  const Sequence sequence(problem, task.sequence);
  if (row + tile_rows < sequence.rows) {
    add_rows(sequence, h, row + tile_rows);
  } else if (h + 1 < (task.kv_head + 1) * group) {
    add_rows(sequence, h + 1, 0);
  } else {
    const int64_t first_key = sequence.first_key + keys.begin, count = keys.end - keys.begin;
    if (gradient.k.data != nullptr) soon.add(problem.dtype, gradient.k, first_key, count, task.kv_head, D, true);
    if (gradient.v.data != nullptr) soon.add(problem.dtype, gradient.v, first_key, count, task.kv_head, Dv, true);
    if (next.task != nullptr) {
      const Sequence after(problem, next.task->sequence);
      const int64_t next_keys = std::min(kKeyBlock, next.task->end - next.first);
      soon.add(problem.dtype, x.k, after.first_key + next.first, next_keys, next.task->kv_head, D);
      soon.add(problem.dtype, x.v, after.first_key + next.first, next_keys, next.task->kv_head, Dv);
      add_rows(after, next.task->kv_head * group, 0);
    }
  }
  return soon;
}

}  // namespace deckle::kernels::cpu
