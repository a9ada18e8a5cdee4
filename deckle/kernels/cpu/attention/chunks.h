#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "deckle/kernels/args/attention.h"

namespace deckle::kernels::cpu {

/// Keys that the key-stationary passes load at a time; chunks are cut at multiples of it.
inline constexpr int64_t kKeyBlock = 256;

/// Chunks of keys per sequence at most: each costs a buffer of the size of dq.
inline constexpr int64_t kMaxChunks = 8;

/// Keys [begin, end) of one key head of one sequence: a task of the key-stationary passes.
struct KeyTask {
  int64_t sequence, kv_head, chunk, chunks, begin, end;
  int64_t cost;
};

/// All key tasks, heaviest first. Cut so that about 32 tasks or more exist where the lengths allow it; a function of
/// the problem alone. Every (sequence, key head) has at least one task, which may be empty.
inline std::vector<KeyTask> key_tasks(const AttentionProblem& problem) {
  double total = 0;
  for (int64_t b = 0; b < problem.sequences; ++b) {
    total += static_cast<double>(problem.rows(b)) * static_cast<double>(problem.keys(b)) * static_cast<double>(problem.kv_heads);
  }
  std::vector<KeyTask> tasks;
  for (int64_t b = 0; b < problem.sequences; ++b) {
    const int64_t rows = problem.rows(b), keys = problem.keys(b), blocks = (keys + kKeyBlock - 1) / kKeyBlock;
    const double share = total == 0 ? 0 : static_cast<double>(rows) * static_cast<double>(keys) / total;
    const int64_t chunks = std::clamp<int64_t>(static_cast<int64_t>(share * 32), 1, std::max<int64_t>(1, std::min(kMaxChunks, blocks)));
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      const int64_t begin = std::min(keys, chunk * blocks / chunks * kKeyBlock), end = std::min(keys, (chunk + 1) * blocks / chunks * kKeyBlock);
      // Under a causal mask early keys are seen by more rows; the exact count does not matter.
      const int64_t cost = (end - begin) * (problem.causal ? 2 * rows - rows * (begin + end) / std::max<int64_t>(2 * keys, 1) : rows);
      for (int64_t g = 0; g < problem.kv_heads; ++g) tasks.push_back({b, g, chunk, chunks, begin, end, cost});
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const KeyTask& a, const KeyTask& b) { return a.cost > b.cost; });
  return tasks;
}

}  // namespace deckle::kernels::cpu
