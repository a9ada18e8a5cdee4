// A cache of blocks by size and stream, over a pool.
#include "deckle/core/cuda/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/base/numbers.h"
#include "deckle/core/cuda/capture.h"
#include "deckle/core/cuda/counters.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/driver.h"
#include "deckle/core/cuda/pool.h"
#include "deckle/core/cuda/stream.h"
#include "deckle/core/cuda/uses.h"

namespace deckle::cuda {
namespace {

constexpr int64_t kAlignment = 256;

/// As the CPU's allocator: four sizes per power of two, so that at most a fifth of a block is lost.
int64_t round_up(int64_t bytes) {
  if (bytes <= 4 * kAlignment) return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const int64_t step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes - 1))) / 4;
  return (bytes + step - 1) / step * step;
}

struct Cache {
  std::mutex mutex;
  std::map<std::pair<void*, int64_t>, std::vector<void*>> free;                // by stream and rounded size
  std::unordered_map<void*, std::unordered_set<void*>> kept;                   // of each recorded stream its blocks,
  std::unordered_map<void*, std::unordered_set<const void*>> held;             // those that its kernels use, wherever from,
  std::unordered_map<void*, std::vector<std::pair<void*, int64_t>>> operands;  // and which of them were freed, with their sizes
  MemoryStats stats;

  /// The recorded stream that a block belongs to; null: none.
  void* home(void* block) const {
    for (const auto& [stream, blocks] : kept) {
      if (blocks.contains(block)) return stream;
    }
    return nullptr;
  }

  /// A recorded stream whose kernels use a block that belongs to another or to none; null: none.
  void* holder(const void* block, const void* home) const {
    for (const auto& [stream, blocks] : held) {
      if (stream != home && blocks.contains(block)) return stream;
    }
    return nullptr;
  }
};

std::atomic<bool> used{false};

/// Of a device that there is: allocate and the public functions ask.
Cache& cache(Device device) {
  static auto* const caches = new std::array<Cache, kMaxDevices>;  // leaked, as the tensors in static storage are
  return (*caches)[static_cast<size_t>(device.index)];
}

/// Whether blocks freed in this stream are still in use: a graph that lives writes and reads them in each replay.
bool serves_a_graph(const Cache& shared, void* stream) { return shared.kept.contains(stream); }

/// Gives free blocks back to the pool, but for those of a recorded stream, and all to the system that the pool has by then. Waits
/// for the streams that had them; those that are recorded are none of these, so a recording may call it.
void release(Cache& shared, Device device) {
  std::erase_if(shared.free, [&](const auto& entry) {
    const auto& [taker, size] = entry.first;
    if (serves_a_graph(shared, taker)) return false;
    for (void* block : entry.second) pool::give(block, size, device, Stream{taker});
    shared.stats.cached -= size * std::ssize(entry.second);
    return true;
  });
  pool::trim(device);
}

}  // namespace

void* allocate(int64_t bytes, Device device) {
  if (bytes == 0) {
    require(device);
    return nullptr;
  }
  constexpr int64_t kMost = int64_t{1} << 62;
  if (bytes < 0 || bytes > kMost)
    fail(ErrorKind::out_of_memory, "cannot allocate {} bytes on {} (expected 0 to {})", bytes, to_string(device), kMost);
  const int64_t size = round_up(bytes);
  refuse_other_device(device);
  const Stream now = stream(device);
  Cache& shared = cache(device);
  const std::lock_guard lock(shared.mutex);
  void* block = nullptr;
  bool counted = false;  // as in use
  if (const auto found = shared.free.find({now.handle, size}); found != shared.free.end() && !found->second.empty()) {
    block = found->second.back();
    found->second.pop_back();
    if (serves_a_graph(shared, now.handle))
      counted = true;
    else
      shared.stats.cached -= size;
  } else {
    used.store(true, std::memory_order_relaxed);
    count(Counted::block, device);
    // A recorded allocation would be one of the graph's own.
    const Stream taker = capturing() ? default_stream(device) : now;
    block = pool::take(size, device, taker);
    if (block == nullptr) {
      count_wait_for_memory(device);
      release(shared, device);
      block = pool::take(size, device, taker);
    }
    if (block == nullptr) {
      const pool::Room room = pool::room(device);
      fail(ErrorKind::out_of_memory,
           "cannot allocate {} bytes on {}: {} in use by tensors and graphs, {} free of {} (expected smaller batches, or fewer "
           "tensors and graphs that live)",
           with_commas(bytes), to_string(device), with_commas(shared.stats.in_use), with_commas(room.available),
           with_commas(room.total));
    }
    if (capturing()) shared.kept[now.handle].insert(block);
  }
  if (!counted) shared.stats.in_use += size;
  shared.stats.peak = std::max(shared.stats.peak, shared.stats.in_use);
  first_use(block, device);
  return block;
}

void deallocate(void* memory, int64_t bytes, Device device) noexcept {
  if (memory == nullptr || in_child_of_fork()) return;
  const int64_t size = round_up(bytes);
  Cache& shared = cache(device);
  const std::lock_guard lock(shared.mutex);
  void* const home = shared.home(memory);
  if (void* const holder = shared.holder(memory, home)) {
    try {
      shared.operands[holder].emplace_back(memory, size);  // in use until the graph ends
    } catch (...) {                                        // then it is lost, as the graph must not be
    }
    return;
  }
  if (capturing()) {  // scratch of the graph, which needs no order with others
    record_free(memory);
    if (const auto own = shared.held.find(home); own != shared.held.end()) own->second.erase(memory);
  }
  const std::optional<Stream> to = home != nullptr ? Stream{home} : back_to_taker(memory, device);
  if (home == nullptr) shared.stats.in_use -= size;
  if (!to) return;
  pool::poison(memory, size);
  try {
    shared.free[{to->handle, size}].push_back(memory);
    if (home == nullptr) shared.stats.cached += size;
  } catch (...) {
    if (home != nullptr) shared.stats.in_use -= size;
    pool::give(memory, size, device, *to);
  }
}

void keep_blocks(Device device, Stream stream) {
  Cache& shared = cache(device);
  const std::lock_guard lock(shared.mutex);
  shared.kept[stream.handle];
}

void hold_block(const void* memory, Device device, Stream stream) {
  Cache& shared = cache(device);
  const std::lock_guard lock(shared.mutex);
  shared.held[stream.handle].insert(memory);
}

void release_blocks(Device device, Stream stream) {
  Cache& shared = cache(device);
  const std::lock_guard lock(shared.mutex);
  shared.kept.erase(stream.handle);
  shared.held.erase(stream.handle);
  if (const auto operands = shared.operands.find(stream.handle); operands != shared.operands.end()) {
    for (const auto& [block, size] : operands->second) {
      void* const home = shared.home(block);
      if (void* const holder = shared.holder(block, home)) {
        shared.operands[holder].emplace_back(block, size);
        continue;
      }
      if (home != nullptr) {  // another graph's, which writes it
        shared.free[{home, size}].push_back(block);
        continue;
      }
      pool::give(block, size, device, back_to_taker(block, device).value_or(default_stream(device)));
      shared.stats.in_use -= size;
    }
    shared.operands.erase(stream.handle);  // no iterator: another graph's entry may have been added meanwhile
  }
  std::erase_if(shared.free, [&](const auto& entry) {  // in use until now
    const auto& [taker, size] = entry.first;
    if (taker != stream.handle) return false;
    for (void* block : entry.second)  // after streams that read results
      pool::give(block, size, device, back_to_taker(block, device).value_or(default_stream(device)));
    shared.stats.in_use -= size * std::ssize(entry.second);
    return true;
  });
}

bool in_use() { return used.load(std::memory_order_relaxed); }

MemoryStats memory_stats(Device device) {
  require(device);
  Cache& shared = cache(device);
  const std::lock_guard lock(shared.mutex);
  return shared.stats;
}

void reset_peak_memory(Device device) {
  require(device);
  Cache& shared = cache(device);
  const std::lock_guard lock(shared.mutex);
  shared.stats.peak = shared.stats.in_use;
}

void empty_cache(Device device) {
  require(device);
  count(Counted::wait, device);
  Cache& shared = cache(device);
  const std::lock_guard lock(shared.mutex);
  release(shared, device);
}

}  // namespace deckle::cuda
