#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "deckle/base/aligned_block.h"

namespace deckle::kernels::cpu {

/// Tile buffers of the running thread: pieces of an arena that the thread keeps from task to task, in huge pages, so that
/// operands that live in the second cache cost no page walks. A task that needs more than the arena holds gets another block;
/// when it ends, one block of the whole size takes the place of all. At most one Scratch may live per thread at a time. Contents
/// are unspecified. 64-byte aligned.
class Scratch {
 public:
  Scratch() = default;
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    Arena& kept = arena();
    if (kept.blocks.size() > 1) {
      const size_t whole = kept.size();
      kept.blocks.clear();
      kept.add(whole);
    }
  }

  template <typename T>
  T* take(int64_t count) {
    return static_cast<T*>(bytes(static_cast<size_t>(count) * sizeof(T)));
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  struct Block {
    std::unique_ptr<std::byte, Free> memory;
    size_t size = 0;
  };
  struct Arena {
    std::vector<Block> blocks;

    size_t size() const {
      size_t sum = 0;
      for (const Block& block : blocks) sum += block.size;
      return sum;
    }
    /// Best effort: where there is no memory for it, the next task asks again.
    void add(size_t needed) noexcept {
      const size_t size = (needed + kHugePage - 1) / kHugePage * kHugePage;
      auto* const memory = static_cast<std::byte*>(aligned_block(size, kHugePage));
      if (memory != nullptr) blocks.push_back({std::unique_ptr<std::byte, Free>(memory), size});
    }
  };

  static Arena& arena() {
    thread_local Arena kept = [] {
      Arena fresh;
      fresh.blocks.reserve(64);  // add() does not allocate more than its block
      return fresh;
    }();
    return kept;
  }

  void* bytes(size_t size) {
    // Buffers of like sizes would all start in the same cache set: some lines between them keep them apart.
    constexpr size_t kApart = 5 * 64;
    const size_t taken = (size + 63) / 64 * 64 + kApart;
    Arena& kept = arena();
    if (kept.blocks.empty() || used_ + taken > kept.blocks.back().size) {
      const size_t before = kept.blocks.size();
      if (before == 64) throw std::bad_alloc();
      kept.add(std::max(taken, kept.size()));
      if (kept.blocks.size() == before) throw std::bad_alloc();
      used_ = 0;
    }
    std::byte* const at = kept.blocks.back().memory.get() + used_;
    used_ += taken;
    return at;
  }

  size_t used_ = 0;  // of the last block
};

}  // namespace deckle::kernels::cpu
