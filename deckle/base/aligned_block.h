#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>

namespace deckle {

inline constexpr size_t kHugePage = size_t{2} << 20;

/// Uninitialised memory at a 64-byte boundary, or null where there is none; std::free gives it back. Of `huge_from` bytes and
/// more it begins at a huge page and lies in such pages where the system grants them: touching fresh memory in small ones costs
/// as much as writing it once more.
inline void* aligned_block(size_t size, size_t huge_from) {
  const bool huge = size >= huge_from;
  const size_t alignment = huge ? kHugePage : 64, rest = size % alignment;
  if (rest != 0 && __builtin_add_overflow(size, alignment - rest, &size)) return nullptr;  // aligned_alloc wants whole multiples
  void* const block = std::aligned_alloc(alignment, size);
  if (block != nullptr && huge) madvise(block, size, MADV_HUGEPAGE);  // best effort: failing only costs speed
  return block;
}

}  // namespace deckle
