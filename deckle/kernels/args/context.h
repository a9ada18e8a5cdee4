#pragma once

#include "deckle/base/device.h"
#include "deckle/base/scratch.h"
#include "deckle/base/stream.h"

namespace deckle {

/// What a kernel may know of its surroundings: where it runs, after what, and memory for what it keeps meanwhile. Threads come
/// from parallel_for, each of which has scratch memory of its own.
struct Context {
  Device device;
  Stream stream = {};

  /// A frame of the running thread's scratch memory.
  Scratch scratch() const { return Scratch(); }
};

}  // namespace deckle
