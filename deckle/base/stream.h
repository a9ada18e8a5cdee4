#pragma once

namespace deckle {

/// The order in which a device runs kernels: an opaque handle of its driver. Null: the device's default order; a CPU has no
/// other.
struct Stream {
  void* handle = nullptr;
};

}  // namespace deckle
