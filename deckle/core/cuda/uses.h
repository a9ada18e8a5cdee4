#pragma once

#include <optional>

#include "deckle/base/device.h"
#include "deckle/base/stream.h"

/// The order of memory between streams, and between replays of graphs and others. Nothing is kept, and nothing costs, before a
/// second stream is made or a graph is recorded.
namespace deckle::cuda {

/// A block was taken, for this thread's stream.
void first_use(const void* memory, Device device);

/// A kernel or a copy in this thread's stream uses a block next, which begins at `memory`: it comes after what other streams that
/// used it were given until now. Of one that this thread records, its replays do.
void use(const void* memory, Device device);

/// The stream that took a block, to free it in: from now on it comes after all that used it. There the next one of its size is
/// looked for; in the stream of whoever used it last the blocks of one that only makes them would pile up. Empty if the device no
/// longer keeps an order: such a block can serve nobody else.
std::optional<Stream> back_to_taker(const void* memory, Device device) noexcept;

/// Sends this thread's work on a device to a stream, null: the default one, and returns the former one.
Stream exchange_stream(Device device, Stream stream);

/// Streams were made beside the default one.
bool has_streams();
void note_stream();
/// A recording began (1) or ended (-1).
void note_recording(int change);

}  // namespace deckle::cuda
