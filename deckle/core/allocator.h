#pragma once

#include <cstdint>

namespace deckle {

/// Bytes handed out by the CPU allocator, and bytes it holds.
struct MemoryStats {
  int64_t in_use = 0;
  int64_t peak = 0;    // largest in_use since the start or the last reset
  int64_t cached = 0;  // freed by tensors, kept for the next
};

MemoryStats memory_stats();
void reset_peak_memory();

/// Gives cached blocks back to the system.
void empty_cache();

namespace detail {
/// 64-byte aligned, uninitialised; throws Error(out_of_memory) with the size asked for. nullptr for 0 bytes.
void* allocate(int64_t bytes);
void deallocate(void* memory, int64_t bytes) noexcept;
}  // namespace detail

}  // namespace deckle
