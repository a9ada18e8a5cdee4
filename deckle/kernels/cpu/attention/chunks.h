#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "deckle/kernels/args/attention.h"

namespace deckle::kernels::cpu {

/// Keys that the key-stationary passes load at a time; chunk boundaries are multiples of it, or of 64 where tasks share sums.
inline constexpr int64_t kKeyBlock = 256;

/// Maximal number of chunks of keys per sequence: each costs a buffer of the size of dq.
inline constexpr int64_t kMaxChunks = 8;

/// Keys [begin, end) of one key head of one sequence: a task of the key-stationary passes.
struct KeyTask {
  int64_t sequence, kv_head, chunk, begin, end;
  int64_t index;     // position in KeyTasks::tasks
  int64_t copy = 0;  // which copy of shared sums it adds to
};

/// All tasks of a key-stationary pass and which of them run together.
struct KeyTasks {
  std::vector<KeyTask> tasks;                // by sequence, key head, chunk
  std::vector<std::vector<int64_t>> groups;  // indices of tasks; one worker runs a group, in order. Heaviest first
  std::vector<int64_t> chunks;               // per sequence
  int64_t most_chunks = 1;
  int64_t copies = 1;
};

/// Which tasks add to the same sums in memory, and so must belong to one group. With several copies of the sums, whole sequences
/// and heads are distributed over the copies; with one, each group owns a chunk of keys.
struct SharedSums {
  bool over_sequences = false;
  bool over_heads = false;
  int64_t copies = 1;
};

/// Partitions a problem into about 32 tasks or more where the lengths allow it; a function of the problem alone. Every (sequence,
/// key head) has at least one task, which may be empty. With shared sums, chunk c covers the same keys everywhere.
inline KeyTasks key_tasks(const AttentionProblem& problem, SharedSums shared = {}) {
  KeyTasks result;
  result.copies = shared.copies;
  double total = 0;
  int64_t longest = 0;
  for (int64_t b = 0; b < problem.sequences; ++b) {
    total += static_cast<double>(problem.rows(b)) * static_cast<double>(problem.keys(b)) * static_cast<double>(problem.kv_heads);
    longest = std::max(longest, problem.keys(b));
  }
  const bool grouped = shared.over_sequences || shared.over_heads;
  const int64_t shared_width = std::max<int64_t>(64, ((longest + kMaxChunks - 1) / kMaxChunks + 63) / 64 * 64);
  std::map<std::array<int64_t, 3>, size_t> group_of;
  std::vector<double> cost;
  for (int64_t b = 0; b < problem.sequences; ++b) {
    const int64_t rows = problem.rows(b), keys = problem.keys(b), blocks = (keys + kKeyBlock - 1) / kKeyBlock;
    const double share = total == 0 ? 0 : static_cast<double>(rows) * static_cast<double>(keys) / total;
    const int64_t chunks =
        grouped && shared.copies > 1 ? 1
        : grouped                    ? std::max<int64_t>(1, (keys + shared_width - 1) / shared_width)
                  : std::clamp<int64_t>(static_cast<int64_t>(share * 32), 1, std::max<int64_t>(1, std::min(kMaxChunks, blocks)));
    result.chunks.push_back(chunks);
    result.most_chunks = std::max(result.most_chunks, chunks);
    for (int64_t g = 0; g < problem.kv_heads; ++g) {
      for (int64_t chunk = 0; chunk < chunks; ++chunk) {
        const bool whole = grouped && shared.copies > 1;
        const int64_t begin = whole ? 0 : grouped ? chunk * shared_width : std::min(keys, chunk * blocks / chunks * kKeyBlock);
        const int64_t end = std::min(keys, whole     ? keys
                                           : grouped ? begin + shared_width
                                                     : (chunk + 1) * blocks / chunks * kKeyBlock);
        const auto index = static_cast<int64_t>(result.tasks.size());
        const int64_t merged = (shared.over_sequences ? problem.sequences : 1) * (shared.over_heads ? problem.kv_heads : 1);
        const int64_t ordinal =
            (shared.over_sequences ? b * (shared.over_heads ? problem.kv_heads : 1) : 0) + (shared.over_heads ? g : 0);
        const int64_t copy = ordinal * shared.copies / merged;
        result.tasks.push_back({b, g, chunk, begin, end, index, copy});
        const auto [at, fresh] = group_of.try_emplace(
            {shared.over_sequences ? 0 : b, shared.over_heads ? 0 : g, whole ? copy : chunk}, result.groups.size());
        if (fresh) result.groups.emplace_back(), cost.push_back(0);
        result.groups[at->second].push_back(index);
        // Under a causal mask early keys are visible to more rows; the exact count does not matter.
        const double seen = problem.causal
                                ? static_cast<double>(rows) *
                                      (2.0 - static_cast<double>(begin + end) / static_cast<double>(std::max<int64_t>(keys, 1)))
                                : static_cast<double>(rows);
        cost[at->second] += seen * static_cast<double>(end - begin);
      }
    }
  }
  std::vector<int64_t> order(result.groups.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return cost[a] > cost[b]; });
  std::vector<std::vector<int64_t>> sorted;
  for (int64_t group : order) sorted.push_back(std::move(result.groups[group]));
  result.groups = std::move(sorted);
  return result;
}

}  // namespace deckle::kernels::cpu
