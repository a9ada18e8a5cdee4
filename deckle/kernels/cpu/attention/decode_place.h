#pragma once

#include <algorithm>
#include <cstdint>

#include "deckle/kernels/args/attention.h"
#include "deckle/kernels/cpu/attention/decode.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/simd/amx.h"

namespace deckle::kernels::cpu {

inline constexpr int64_t kDecodeChunk = 256;  // keys of a task
inline constexpr int64_t kDecodeGroup = 16;   // whole vectors of scores on every target, and rows of an AMX tile

/// Keys [begin, end) of one sequence, for all heads; the partial results of its rows start at `partial`.
struct DecodeTask {
  int64_t sequence, begin, end, partial;
};

/// Which row and head the n-th row of a sequence is: by key head, then row, then head of the group.
struct DecodeRow {
  int64_t row, head;
  DecodeRow(const AttentionProblem& problem, int64_t rows, int64_t n)
      : row(n / problem.group() % rows), head(n / (rows * problem.group()) * problem.group() + n % problem.group()) {}
};

/// What a task computes. Positions of keys count from its first key.
struct DecodePlace {
  const AttentionProblem& problem;
  const AttentionOperands& x;
  Sequence sequence;
  int64_t begin;               // position 0 in keys of the sequence
  int64_t shared, rows;        // rows of a key head, and of all
  KeyRange seen[kDecodeRows];  // by row of the sequence
  KeyRange all, common;        // what some row sees, what every row sees
  int64_t low = 0, whole = 0;  // `all` in whole groups

  DecodePlace(const AttentionProblem& of, const AttentionOperands& operands, const DecodeTask& task)
      : problem(of),
        x(operands),
        sequence(of, task.sequence),
        begin(task.begin),
        shared(sequence.rows * of.group()),
        rows(shared * of.kv_heads) {
    const int64_t keys = task.end - task.begin;
    all = {keys, 0}, common = {0, keys};
    for (int64_t i = 0; i < sequence.rows; ++i) {
      const KeyRange range = row_range(problem, sequence, i);
      seen[i] = {std::clamp<int64_t>(range.begin - begin, 0, keys), std::clamp<int64_t>(range.end - begin, 0, keys)};
      if (seen[i].empty()) seen[i] = {0, 0};
      common = {std::max(common.begin, seen[i].begin), std::min(common.end, seen[i].end)};
      if (!seen[i].empty()) all = {std::min(all.begin, seen[i].begin), std::max(all.end, seen[i].end)};
    }
    if (all.empty()) {
      all = {0, 0};
      return;
    }
    low = all.begin / kDecodeGroup * kDecodeGroup;
    whole = (all.end + kDecodeGroup - 1) / kDecodeGroup * kDecodeGroup;
  }

  /// What row n of a key head sees.
  const KeyRange& seen_by(int64_t n) const { return seen[n % shared / problem.group()]; }
  /// The row of K and V at a position.
  int64_t key(int64_t position) const { return sequence.first_key + begin + position; }
};

/// What to request before it is needed, as memory is read while what is there is computed: processors prefetch no further than to
/// the end of a page, which is a few keys. After the last keys come the first values, after these the keys of the task that
/// probably follows.
class DecodeAhead {
 public:
  /// `distance`: keys between what is used and what is requested.
  DecodeAhead(const DecodePlace& place, int64_t distance, const DecodeTask* next)
      : all_(place.all), low_(place.low), distance_(distance), item_(item_size(place.problem.dtype)) {
    const AttentionProblem& problem = place.problem;
    k_ = rows(place.x.k, place.key(0), problem.kv_heads, problem.head_dim);
    v_ = rows(place.x.v, place.key(0), problem.kv_heads, problem.value_dim);
    if (next == nullptr) return;
    next_ = rows(place.x.k, problem.k_offsets[next->sequence] + next->begin, problem.kv_heads, problem.head_dim);
    next_keys_ = next->end - next->begin;
  }

  /// While `count` keys, or values, from `position` on are used for one head after the other.
  simd::RowRequests of_keys(int64_t position, int64_t count, int64_t head) const {
    const int64_t soon = position + distance_;
    if (soon < all_.end) return of(k_, soon, count, head);
    const int64_t value = low_ + soon - all_.end;
    return value < all_.end ? of(v_, value, count, head) : simd::RowRequests();
  }
  simd::RowRequests of_values(int64_t position, int64_t count, int64_t head) const {
    const int64_t soon = position + distance_;
    if (soon < all_.end) return of(v_, soon, count, head);
    return soon - all_.end < next_keys_ ? of(next_, soon - all_.end, count, head) : simd::RowRequests();
  }

 private:
  struct Rows {
    const char* first;
    int64_t row, head, bytes;  // of an element's head
    bool dense;                // heads of a row, and rows, follow each other
  };
  Rows rows(const AttentionRows& of, int64_t first, int64_t heads, int64_t n) const {
    return {static_cast<const char*>(of.data) + first * of.row_stride * item_, of.row_stride * item_, of.head_stride * item_,
            n * item_, of.head_stride == n && of.row_stride == heads * n};
  }
  /// Of dense rows the head's share in the order in which memory lies, else the head's own part of each row.
  static simd::RowRequests of(const Rows& rows, int64_t position, int64_t count, int64_t head) {
    if (rows.dense) return {rows.first + position * rows.row + head * count * rows.bytes, rows.bytes};
    return {rows.first + position * rows.row + head * rows.head, rows.row};
  }

  KeyRange all_;
  int64_t low_, distance_, item_;
  Rows k_{}, v_{}, next_{};
  int64_t next_keys_ = 0;
};

}  // namespace deckle::kernels::cpu
