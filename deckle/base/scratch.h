#pragma once

#include <cstddef>
#include <cstdint>

namespace deckle {

namespace detail {
struct ScratchArena;
}

/// Scratch memory of the running thread: what take() gives is valid until this ends. One arena per thread serves all kernels; it
/// grows to the largest need, in huge pages, so that operands that live in the second cache cost no page walks, and is kept from
/// call to call (up to 64 MiB; more is given back). Frames nest: the last one begun ends first. Other threads may use the memory
/// meanwhile. Contents are unspecified.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// Room for `count` elements, 64-byte aligned; throws Error(out_of_memory).
  template <typename T>
  T* take(int64_t count) {
    return static_cast<T*>(bytes(count, sizeof(T)));
  }

 private:
  void* bytes(int64_t count, size_t size);

  detail::ScratchArena& arena_;
  size_t block_, used_;  // where the arena stood when this began
};

}  // namespace deckle
