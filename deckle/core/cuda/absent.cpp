// What the library knows of GPUs in a build without CUDA: that there are none.
#include "deckle/base/check.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/memory.h"

namespace deckle::cuda {

bool built() { return false; }
int device_count() { return 0; }

void require(Device device) {
  fail(ErrorKind::not_implemented,
       "{} asked of a build without CUDA (expected one configured with a CUDA toolkit: DECKLE_CUDA=ON)", to_string(device));
}

void synchronize(Device device) { require(device); }
Stream stream(Device) { return {}; }
DeviceGuard::DeviceGuard(Device device) { require(device); }
DeviceGuard::~DeviceGuard() = default;

void* allocate(int64_t, Device device) {
  require(device);
  return nullptr;
}
void deallocate(void*, int64_t, Device) noexcept {}
MemoryStats memory_stats(Device device) {
  require(device);
  return {};
}
void reset_peak_memory(Device device) { require(device); }
void empty_cache(Device device) { require(device); }
void copy_bytes(void*, Device to_device, const void*, Device from_device, int64_t) {
  require(to_device.is_cuda() ? to_device : from_device);
}
void zero_bytes(void*, Device device, int64_t) { require(device); }

}  // namespace deckle::cuda
