#pragma once

#include "deckle/base/device.h"
#include "deckle/base/stream.h"

/// What the parts of this folder that know no toolkit ask of the driver, or of the fake device.
namespace deckle::cuda {

inline constexpr int kMaxDevices = 64;

/// The stream of those who name none.
Stream default_stream(Device device);

/// The host waits for what every stream of the device was given: not for the device, which CUDA refuses to all threads while one
/// records a graph.
void wait_for_streams(Device device);

}  // namespace deckle::cuda
