#pragma once

#include <cstdint>

#include "deckle/base/device.h"
#include "deckle/base/stream.h"

/// What the cache of blocks (memory.h) takes them from and gives them back to: the driver's pool, or the fake device's memory.
namespace deckle::cuda::pool {

/// For what comes next in the stream; nullptr if there is not enough.
void* take(int64_t bytes, Device device, Stream stream);
/// May be taken again after what is in the stream now; for another stream, or in another size, perhaps only after trim.
void give(void* memory, int64_t bytes, Device device, Stream stream) noexcept;
/// Waits for the device, and returns to the system what was given back.
void trim(Device device);

/// Copies of one device may go to the memory of the other directly, both ways, where their bus can do it. The driver's pools have
/// accesses of their own, which peer access between contexts does not open.
void open_to_each_other(Device first, Device second);

struct Room {
  int64_t available, total;
};
Room room(Device device);

/// A block that no tensor has any more goes into the cache. The fake device fills it with NaN.
void poison(void* memory, int64_t bytes) noexcept;

}  // namespace deckle::cuda::pool
