#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "deckle/base/parallel.h"
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

  /// The lines of one step, up to `most`, in place of step().
  int64_t take(const char** lines, int64_t most) {
    int64_t count = 0;
    for (int64_t n = 0; n < rows_per_step_ && rows_ > 0; ++n, --rows_) {
      while (parts_[at_].rows == 0) ++at_;
      Part& part = parts_[at_];
      for (int64_t byte = 0; byte < part.bytes && count < most; byte += 64) lines[count++] = part.next + byte;
      part.next += part.stride;
      --part.rows;
    }
    return count;
  }

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
  Part parts_[8] = {};
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

/// The task that a thread probably goes on with after t, of the tasks [.., end) that it took, `grain` at a time, of `count`; null
/// if there is none. Threads take turns if their tasks are alike; a wrong guess costs only time.
template <typename Task>
const Task* likely_next(const std::vector<Task>& tasks, int64_t t, int64_t end, int64_t grain) {
  const int64_t next = t + 1 < end ? t + 1 : end + (num_threads() - 1) * grain;
  return next < static_cast<int64_t>(tasks.size()) ? &tasks[static_cast<size_t>(next)] : nullptr;
}

/// Where a key-stationary pass goes on: keys of `task` from `first`. Nowhere without a task.
struct KeyBlock {
  const KeyTask* task = nullptr;
  int64_t first = 0;
};

/// Row tiles over which the backward spreads its requests for the end of a block of keys.
inline constexpr int64_t kGradientTilesAhead = 4;

/// What the backward prefetches while rows [row, row + tile_rows) of query head h are its tile against `keys` of `task`: the next
/// rows of q and dout, and with `write_dq` this tile's rows of dq; during the last tiles of the block of keys a share each of the
/// rows of dk and dv, and of what `next` begins with.
inline RowPrefetch next_gradient_rows(const AttentionProblem& problem, const AttentionOperands& x,
                                      const AttentionResults& cotangent, const AttentionOperands& gradient, const KeyTask& task,
                                      const KeyRange& keys, int64_t h, int64_t row, int64_t tile_rows, const KeyBlock& next,
                                      bool write_dq) {
  const int64_t D = problem.head_dim, Dv = problem.value_dim, group = problem.group();
  RowPrefetch soon;
  const auto add_rows = [&](const Sequence& sequence, int64_t head, int64_t first) {
    const int64_t count = std::min(tile_rows, sequence.rows - first);
    soon.add(problem.dtype, x.q, sequence.first_row + first, count, head, D);
    soon.add(problem.dtype, cotangent.out, sequence.first_row + first, count, head, Dv);
  };
  const Sequence sequence(problem, task.sequence);
  const bool last_head = h + 1 == (task.kv_head + 1) * group, last_tile = row + tile_rows >= sequence.rows;
  if (write_dq && gradient.q.data != nullptr)
    soon.add(problem.dtype, gradient.q, sequence.first_row + row, std::min(tile_rows, sequence.rows - row), h, D, true);
  if (!last_tile) {
    add_rows(sequence, h, row + tile_rows);
  } else if (!last_head) {
    add_rows(sequence, h + 1, 0);
  }
  const int64_t tiles = (sequence.rows + tile_rows - 1) / tile_rows, parts = std::min(tiles, kGradientTilesAhead),
                part = row / tile_rows - (tiles - parts);
  if (!last_head || part < 0) return soon;
  const auto add_part = [&](const AttentionRows& rows, int64_t first, int64_t count, int64_t head, int64_t n, bool write) {
    const int64_t begin = count * part / parts, end = count * (part + 1) / parts;
    if (rows.data != nullptr) soon.add(problem.dtype, rows, first + begin, end - begin, head, n, write);
  };
  const int64_t first_key = sequence.first_key + keys.begin, count = keys.end - keys.begin;
  add_part(gradient.k, first_key, count, task.kv_head, D, true);
  add_part(gradient.v, first_key, count, task.kv_head, Dv, true);
  if (next.task == nullptr) return soon;
  const Sequence after(problem, next.task->sequence);
  const int64_t next_keys = std::min(kKeyBlock, next.task->end - next.first);
  add_part(x.k, after.first_key + next.first, next_keys, next.task->kv_head, D, false);
  add_part(x.v, after.first_key + next.first, next_keys, next.task->kv_head, Dv, false);
  if (last_tile) add_rows(after, next.task->kv_head * group, 0);
  return soon;
}

}  // namespace deckle::kernels::cpu
