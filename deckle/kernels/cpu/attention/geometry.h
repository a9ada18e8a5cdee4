#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "deckle/kernels/args/attention.h"

namespace deckle::kernels::cpu {

/// Keys [begin, end) of a sequence; empty if begin >= end.
struct KeyRange {
  int64_t begin = 0;
  int64_t end = 0;

  bool empty() const { return begin >= end; }
};

/// One sequence of a problem and everything that depends on its lengths.
struct Sequence {
  int64_t index;
  int64_t rows, keys;  // M, N
  int64_t first_row, first_key;
  int64_t diagonal;  // query i is at key position i + diagonal

  Sequence(const AttentionProblem& problem, int64_t b)
      : index(b),
        rows(problem.rows(b)),
        keys(problem.keys(b)),
        first_row(problem.q_offsets[b]),
        first_key(problem.k_offsets[b]),
        diagonal(problem.diagonal(b)) {}
};

/// Rows of the batch, behind the last one of any sequence.
inline int64_t batch_rows(const AttentionProblem& problem) {
  int64_t rows = 0;
  for (int64_t b = 0; b < problem.sequences; ++b) rows = std::max(rows, problem.q_offsets[b] + problem.rows(b));
  return rows;
}

/// The smallest range that holds every key that row i may see. Exact unless problem.ranges.count > 1 or a mask plane is given.
inline KeyRange row_range(const AttentionProblem& problem, const Sequence& sequence, int64_t i) {
  const int64_t position = i + sequence.diagonal;
  KeyRange range{0, sequence.keys};
  if (problem.causal) range.end = std::min(range.end, position + 1);
  if (problem.window_left >= 0) range.begin = std::max(range.begin, position - problem.window_left);
  if (problem.window_right >= 0) range.end = std::min(range.end, position + problem.window_right + 1);
  if (problem.ranges.bounds != nullptr) {
    const int32_t* bounds = problem.ranges.bounds + (sequence.first_row + i) * problem.ranges.count * 2;
    int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
    for (int r = 0; r < problem.ranges.count; ++r) {
      if (bounds[2 * r] >= bounds[2 * r + 1]) continue;
      begin = std::min<int64_t>(begin, bounds[2 * r]);
      end = std::max<int64_t>(end, bounds[2 * r + 1]);
    }
    range.begin = std::max(range.begin, begin);
    range.end = std::min(range.end, end);
  }
  if (range.empty()) return {0, 0};
  return range;
}

/// The ranges of a block of rows that share score tiles, as the comparisons of the mask need them: keys in `inner` are visible to
/// every row, keys outside `outer` to none.
struct BlockRange {
  KeyRange outer;
  KeyRange inner;
};

/// Fills begin[lane], end[lane] for rows [first, first + count) and pads to `lanes` with the last row's.
template <typename Int>
BlockRange block_range(const AttentionProblem& problem, const Sequence& sequence, int64_t first, int64_t count, int64_t lanes,
                       Int* begin, Int* end) {
  BlockRange block{{std::numeric_limits<int64_t>::max(), 0}, {0, std::numeric_limits<int64_t>::max()}};
  for (int64_t lane = 0; lane < lanes; ++lane) {
    if (lane >= count) {
      begin[lane] = begin[count - 1];
      end[lane] = end[count - 1];
      continue;
    }
    const KeyRange range = row_range(problem, sequence, first + lane);
    begin[lane] = static_cast<Int>(range.begin);
    end[lane] = static_cast<Int>(range.end);
    block.inner.begin = std::max(block.inner.begin, range.begin);
    block.inner.end = std::min(block.inner.end, range.end);
    if (range.empty()) continue;
    block.outer.begin = std::min(block.outer.begin, range.begin);
    block.outer.end = std::max(block.outer.end, range.end);
  }
  if (block.outer.empty()) block.outer = {0, 0};
  return block;
}

/// Tasks that a worker takes at a time: several if there are many.
inline int64_t task_grain(int64_t tasks) { return std::clamp<int64_t>(tasks / 64, 1, 8); }

/// Rows [first, first + count) of one head of one sequence: a task of the row passes.
struct RowTask {
  int64_t sequence, head, first, count;
  int64_t cost;  // about the number of score elements
};

/// All row tasks, heaviest first: the list depends on the problem alone, so results cannot depend on the schedule.
inline std::vector<RowTask> row_tasks(const AttentionProblem& problem, int64_t tile) {
  std::vector<RowTask> tasks;
  for (int64_t b = 0; b < problem.sequences; ++b) {
    const Sequence sequence(problem, b);
    for (int64_t first = 0; first < sequence.rows; first += tile) {
      const int64_t count = std::min(tile, sequence.rows - first);
      const KeyRange low = row_range(problem, sequence, first), high = row_range(problem, sequence, first + count - 1);
      const int64_t cost = count * (16 + ((low.end - low.begin) + (high.end - high.begin)) / 2);
      for (int64_t h = 0; h < problem.heads; ++h) tasks.push_back({b, h, first, count, cost});
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const RowTask& a, const RowTask& b) { return a.cost > b.cost; });
  return tasks;
}

}  // namespace deckle::kernels::cpu
