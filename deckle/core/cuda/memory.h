#pragma once

#include <cstdint>

#include "deckle/base/device.h"
#include "deckle/core/allocator.h"

/// Memory of GPUs: a cache of blocks over the driver's pool, and copies, all in the order of the device's stream.
namespace deckle::cuda {

/// 256-byte aligned, uninitialised; throws Error(out_of_memory) with figures. nullptr for 0 bytes.
void* allocate(int64_t bytes, Device device);
void deallocate(void* memory, int64_t bytes, Device device) noexcept;

/// Whether memory was ever taken on a GPU.
bool in_use();

/// Where kernels find what lies at an address of the device: there; on the fake device, elsewhere.
void* for_kernels(void* address);

MemoryStats memory_stats(Device device);
void reset_peak_memory(Device device);
void empty_cache(Device device);

/// Device memory of a kernel's own: given back when this ends, to be used by what comes later in the stream.
class Block {
 public:
  Block(int64_t bytes, Device device) : memory_(allocate(bytes, device)), bytes_(bytes), device_(device) {}
  ~Block() { deallocate(memory_, bytes_, device_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  template <typename T>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  void* memory_;
  int64_t bytes_;
  Device device_;
};

/// Contiguous bytes from one place to another. To a GPU: returns before the copy is done, `from` may be reused at once. From a
/// GPU to the host: done on return.
void copy_bytes(void* to, Device to_device, const void* from, Device from_device, int64_t bytes);

/// All bits zero, in the order of the stream.
void zero_bytes(void* memory, Device device, int64_t bytes);

}  // namespace deckle::cuda
