#pragma once

#include "deckle/base/device.h"
#include "deckle/base/stream.h"

namespace deckle {

/// What a kernel may know of its surroundings: where it runs, and after what. Threads come from parallel_for; each takes the
/// memory for what it keeps meanwhile from a Scratch (base/scratch.h).
struct Context {
  Device device;
  Stream stream = {};
};

}  // namespace deckle
