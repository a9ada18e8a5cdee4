// Device memory: blocks by size in a cache of our own, over the driver's stream-ordered pool. All work of a device runs in one
// stream, so a block is free for the next owner as soon as its last owner has let go: what that one launched comes first.
#include "deckle/core/cuda/memory.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <limits>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/base/numbers.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"

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
  std::unordered_map<int64_t, std::vector<void*>> free;  // by rounded size
  MemoryStats stats;
  bool pool_ready = false;
};

Cache& cache(Device device) {
  require(device);
  static auto* const caches = new std::array<Cache, 64>;  // leaked, as the tensors in static storage are
  return (*caches)[static_cast<size_t>(device.index)];
}

/// The pool keeps what it has: giving memory back is empty_cache's.
void prepare_pool(Device device) {
  cudaMemPool_t pool = nullptr;
  check_call(cudaDeviceGetDefaultMemPool(&pool, device.index), "the memory pool");
  uint64_t keep = std::numeric_limits<uint64_t>::max();
  check_call(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "the memory pool");
}

/// From the pool; nullptr if there is not enough.
void* from_pool(Cache& shared, int64_t size, Device device) {
  if (!shared.pool_ready) {
    prepare_pool(device);
    shared.pool_ready = true;
  }
  void* memory = nullptr;
  const cudaError_t status = cudaMallocAsync(&memory, static_cast<size_t>(size), stream_handle(device));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check_call(status, "an allocation on a GPU");
  return memory;
}

void release(Cache& shared, Device device) {
  for (auto& [size, blocks] : shared.free) {
    for (void* block : blocks) cudaFreeAsync(block, stream_handle(device));
    blocks.clear();
  }
  shared.stats.cached = 0;
  check_call(cudaStreamSynchronize(stream_handle(device)), "the work on a GPU");
  cudaMemPool_t pool = nullptr;
  check_call(cudaDeviceGetDefaultMemPool(&pool, device.index), "the memory pool");
  check_call(cudaMemPoolTrimTo(pool, 0), "the memory pool");
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
  Cache& shared = cache(device);
  const std::lock_guard lock(shared.mutex);
  void* block = nullptr;
  if (auto& blocks = shared.free[size]; !blocks.empty()) {
    block = blocks.back();
    blocks.pop_back();
    shared.stats.cached -= size;
  } else {
    const DeviceGuard guard(device);
    block = from_pool(shared, size, device);
    if (block == nullptr) {
      release(shared, device);
      block = from_pool(shared, size, device);
    }
    if (block == nullptr) {
      size_t available = 0, total = 0;
      cudaMemGetInfo(&available, &total);
      fail(ErrorKind::out_of_memory, "cannot allocate {} bytes on {} ({} in use by tensors, {} free of {})", with_commas(bytes),
           to_string(device), with_commas(shared.stats.in_use), with_commas(static_cast<int64_t>(available)),
           with_commas(static_cast<int64_t>(total)));
    }
  }
  shared.stats.in_use += size;
  shared.stats.peak = std::max(shared.stats.peak, shared.stats.in_use);
  return block;
}

void deallocate(void* memory, int64_t bytes, Device device) noexcept {
  if (memory == nullptr) return;
  const int64_t size = rounded(bytes);
  Cache& shared = cache(device);
  const std::lock_guard lock(shared.mutex);
  shared.stats.in_use -= size;
  try {
    shared.free[size].push_back(memory);
    shared.stats.cached += size;
  } catch (...) {
    cudaFreeAsync(memory, stream_handle(device));
  }
}

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
  const DeviceGuard guard(device);
  release(shared, device);
}

}  // namespace deckle::cuda
