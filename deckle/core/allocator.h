#pragma once

#include <cstdint>

#include "deckle/base/device.h"

namespace deckle {

/// Bytes that a device's allocator handed out, and bytes it holds.
struct MemoryStats {
  int64_t in_use = 0;
  int64_t peak = 0;    // largest in_use since the start or the last reset
  int64_t cached = 0;  // freed by tensors, kept for the next
};

MemoryStats memory_stats(Device device = {});
void reset_peak_memory(Device device = {});

/// Gives cached blocks back to the system; on a GPU, when what was given to it is done.
void empty_cache(Device device = {});

/// Waits for everything that was given to a device; throws what went wrong there meanwhile. A CPU has nothing to wait for.
void synchronize(Device device);

namespace detail {
/// 64-byte aligned, uninitialised; throws Error(out_of_memory) with the size asked for. nullptr for 0 bytes.
void* allocate(int64_t bytes);
void deallocate(void* memory, int64_t bytes) noexcept;
}  // namespace detail

}  // namespace deckle
