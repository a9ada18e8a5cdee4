// The driver's pool of a GPU.
#include "deckle/core/cuda/pool.h"

#include <array>
#include <limits>
#include <mutex>

#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/driver.h"
#include "deckle/core/cuda/error.h"

namespace deckle::cuda::pool {
namespace {

cudaMemPool_t pool_of(Device device) {
  static auto* const prepared = new std::array<std::once_flag, 64>;
  cudaMemPool_t pool = nullptr;
  check_call(cudaDeviceGetDefaultMemPool(&pool, device.index), "the memory pool");
  // It keeps what it has: giving memory back is trim's.
  std::call_once((*prepared)[static_cast<size_t>(device.index)], [&] {
    uint64_t keep = std::numeric_limits<uint64_t>::max();
    check_call(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep), "the memory pool");
  });
  return pool;
}

/// The pool of `owner`, all it has and will have, is open to `other`, for as long as the process lives.
void open_to(Device owner, Device other) {
  int can = 0;
  check_call(cudaDeviceCanAccessPeer(&can, other.index, owner.index), "access between GPUs");
  if (can == 0) return;  // the driver copies by way of the host
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = other.index;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  check_call(cudaMemPoolSetAccess(pool_of(owner), &access, 1), "access between GPUs");
}

}  // namespace

void open_to_each_other(Device first, Device second) {
  using Once = std::array<std::once_flag, 64>;
  static auto* const opened = new std::array<Once, 64>;
  const auto at = [&](Device owner, Device other) {
    std::call_once((*opened)[static_cast<size_t>(owner.index)][static_cast<size_t>(other.index)], [&] { open_to(owner, other); });
  };
  at(first, second);
  at(second, first);
}

void* take(int64_t bytes, Device device, Stream stream) {
  const DeviceGuard guard(device);
  pool_of(device);
  void* memory = nullptr;
  const cudaError_t status = cudaMallocAsync(&memory, static_cast<size_t>(bytes), static_cast<cudaStream_t>(stream.handle));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check_call(status, "an allocation on a GPU");
  return memory;
}

void give(void* memory, int64_t, Device, Stream stream) noexcept {
  cudaFreeAsync(memory, static_cast<cudaStream_t>(stream.handle));
}

void trim(Device device) {
  const DeviceGuard guard(device);
  wait_for_streams(device);
  check_call(cudaMemPoolTrimTo(pool_of(device), 0), "the memory pool");
}

Room room(Device device) {
  const DeviceGuard guard(device);
  size_t available = 0, total = 0;
  cudaMemGetInfo(&available, &total);
  return {static_cast<int64_t>(available), static_cast<int64_t>(total)};
}

void poison(void*, int64_t) noexcept {}

}  // namespace deckle::cuda::pool
