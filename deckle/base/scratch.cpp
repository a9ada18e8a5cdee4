#include "deckle/base/scratch.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "deckle/base/aligned_block.h"
#include "deckle/base/check.h"
#include "deckle/base/thread_lists.h"

namespace deckle {
namespace detail {

struct ScratchArena {
  static constexpr size_t kMostBlocks = 64;  // each as large as all before it
  static constexpr size_t kKept = size_t{64} << 20;

  struct Block {
    std::byte* memory = nullptr;
    size_t size = 0;
  };
  Block blocks[kMostBlocks];
  size_t count = 0;
  size_t block = 0, used = 0;  // the next piece begins there
  int frames = 0;
  ScratchArena *next = nullptr, *previous = nullptr;

  size_t size() const {
    size_t sum = 0;
    for (size_t i = 0; i < count; ++i) sum += blocks[i].size;
    return sum;
  }
  bool add(size_t needed) {
    if (count == kMostBlocks || needed > SIZE_MAX - kHugePage) return false;
    const size_t size = (needed + kHugePage - 1) / kHugePage * kHugePage;
    auto* const memory = static_cast<std::byte*>(aligned_block(size, kHugePage));
    if (memory == nullptr) return false;
    blocks[count++] = {memory, size};
    return true;
  }
  void clear() {
    for (size_t i = 0; i < count; ++i) std::free(blocks[i].memory);
    count = 0;
  }
  /// One block of the whole size takes the place of all. Best effort: where there is no memory for it, the next call asks again.
  void settle() {
    const size_t whole = size();
    if (count > 1 || whole > kKept) clear();
    if (count == 0 && whole > 0 && whole <= kKept) add(whole);
  }
};

}  // namespace detail

namespace {

using detail::ScratchArena;

// All arenas. The threads of an OpenMP pool are never joined, so theirs live as long as the process: the list keeps them
// reachable.
ScratchArena* arenas = nullptr;

struct Owner {
  ScratchArena* const arena = new ScratchArena;

  Owner() {
    const std::lock_guard lock(thread_lists_mutex());
    arena->next = arenas;
    if (arenas != nullptr) arenas->previous = arena;
    arenas = arena;
  }
  ~Owner() {
    {
      const std::lock_guard lock(thread_lists_mutex());
      (arena->previous != nullptr ? arena->previous->next : arenas) = arena->next;
      if (arena->next != nullptr) arena->next->previous = arena->previous;
    }
    arena->clear();
    delete arena;
  }
};

ScratchArena& arena_of_thread() {
  thread_local const Owner owner;
  return *owner.arena;
}

}  // namespace

Scratch::Scratch() : arena_(arena_of_thread()), block_(arena_.block), used_(arena_.used) { ++arena_.frames; }

Scratch::~Scratch() {
  arena_.block = block_;
  arena_.used = used_;
  if (--arena_.frames == 0) arena_.settle();
}

void* Scratch::bytes(int64_t count, size_t size) {
  // Buffers of like sizes would all start in the same cache set: some lines between them keep them apart.
  constexpr size_t kApart = 5 * 64;
  size_t taken = 0;
  const bool fits = count >= 0 && !__builtin_mul_overflow(static_cast<size_t>(count), size, &taken) && taken < SIZE_MAX / 2;
  taken = (taken + 63) / 64 * 64 + kApart;
  ScratchArena& arena = arena_;
  bool found = fits && arena.count > 0 && taken <= arena.blocks[arena.block].size - arena.used;
  while (fits && !found && arena.block + 1 < arena.count) {
    arena.used = 0;
    found = taken <= arena.blocks[++arena.block].size;
  }
  if (!found) {
    if (!fits || !arena.add(std::max(taken, arena.size())))
      fail(ErrorKind::out_of_memory, "no memory for {} scratch elements of {} bytes", count, size);
    arena.block = arena.count - 1;
    arena.used = 0;
  }
  std::byte* const at = arena.blocks[arena.block].memory + arena.used;
  arena.used += taken;
  return at;
}

}  // namespace deckle
