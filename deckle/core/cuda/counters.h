#pragma once

#include <cstdint>

#include "deckle/base/device.h"

namespace deckle::cuda {

/// What the host did for a device since the process began. A training step in its steady state takes no block and waits for
/// nothing: `counters(gpu)` before and after it says so.
struct Counters {
  int64_t blocks = 0;   // taken from the driver, not from the cache
  int64_t waits = 0;    // times the host waited for the device: synchronize, item(), a copy to the host
  int64_t uploads = 0;  // copies from the host
  int64_t read = 0;     // bytes copied to the host
};
Counters counters(Device device);

enum class Counted { block, wait, upload, read };
/// Refuses what a recording cannot have.
void count(Counted what, Device device, int64_t amount = 1);
/// A wait for what other streams have, before there is no memory: a recording may have it.
void count_wait_for_memory(Device device);

}  // namespace deckle::cuda
