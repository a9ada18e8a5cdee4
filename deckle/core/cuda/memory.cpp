// A cache of blocks by size and stream, over a pool.
#include "deckle/core/cuda/memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/base/numbers.h"
#include "deckle/core/cuda/counters.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/pool.h"
#include "deckle/core/cuda/stream.h"
#include "deckle/core/cuda/uses.h"

namespace deckle::cuda {
namespace {

constexpr int64_t kAlignment = 256;

/// As the CPU's allocator: four sizes per power of two, so that at most a fifth of a block is lost.
int64_t rounded(int64_t bytes) {
  if (bytes <= 4 * kAlignment) return (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const int64_t step = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes - 1))) / 4;
  return (bytes + step - 1) / step * step;
}

struct Cache {
  std::mutex mutex;
  std::map<std::pair<void*, int64_t>, std::vector<void*>> free;  // by stream and rounded size
  MemoryStats stats;
};

std::atomic<bool> used{false};

Cache& cache(Device device) {
  require(device);
  static auto* const caches = new std::array<Cache, 64>;  // leaked, as the tensors in static storage are
  return (*caches)[static_cast<size_t>(device.index)];
}

void release(Cache& shared, Device device) {
  for (auto& [key, blocks] : shared.free) {
    for (void* block : blocks) pool::give(block, key.second, device, {key.first});
  }
  shared.free.clear();
  shared.stats.cached = 0;
  count(Counted::wait, device);
  pool::trim(device);
}

}  // namespace

void* allocate(int64_t bytes, Device device) {
  if (bytes == 0) {
    require(device);
    return nullptr;
  }
  constexpr int64_t kMost = int64_t{1} << 62;
  if (bytes < 0 || bytes > kMost) fail(ErrorKind::out_of_memory, "cannot allocate {} bytes", bytes);
  const int64_t size = rounded(bytes);
  const Stream now = stream(device);
  Cache& shared = cache(device);
  const std::lock_guard lock(shared.mutex);
  void* block = nullptr;
  if (const auto found = shared.free.find({now.handle, size}); found != shared.free.end() && !found->second.empty()) {
    block = found->second.back();
    found->second.pop_back();
    shared.stats.cached -= size;
  } else {
    used.store(true, std::memory_order_relaxed);
    count(Counted::block, device);
    block = pool::take(size, device, now);
    if (block == nullptr) {
      release(shared, device);
      block = pool::take(size, device, now);
    }
    if (block == nullptr) {
      const pool::Room room = pool::room(device);
      fail(ErrorKind::out_of_memory, "cannot allocate {} bytes on {} ({} in use by tensors, {} free of {})", with_commas(bytes),
           to_string(device), with_commas(shared.stats.in_use), with_commas(room.available), with_commas(room.total));
    }
  }
  shared.stats.in_use += size;
  shared.stats.peak = std::max(shared.stats.peak, shared.stats.in_use);
  first_use(block, device);
  return block;
}

void deallocate(void* memory, int64_t bytes, Device device) noexcept {
  if (memory == nullptr) return;
  const Stream last = last_use(memory, device);
  const int64_t size = rounded(bytes);
  Cache& shared = cache(device);
  const std::lock_guard lock(shared.mutex);
  shared.stats.in_use -= size;
  pool::freed(memory, size);
  try {
    shared.free[{last.handle, size}].push_back(memory);
    shared.stats.cached += size;
  } catch (...) {
    pool::give(memory, size, device, last);
  }
}

bool in_use() { return used.load(std::memory_order_relaxed); }

MemoryStats memory_stats(Device device) {
  Cache& shared = cache(device);
  const std::lock_guard lock(shared.mutex);
  return shared.stats;
}

void reset_peak_memory(Device device) {
  Cache& shared = cache(device);
  const std::lock_guard lock(shared.mutex);
  shared.stats.peak = shared.stats.in_use;
}

void empty_cache(Device device) {
  Cache& shared = cache(device);
  const std::lock_guard lock(shared.mutex);
  release(shared, device);
}

}  // namespace deckle::cuda
