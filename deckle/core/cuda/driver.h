#pragma once

#include "deckle/base/device.h"
#include "deckle/base/stream.h"

/// What the parts of this folder that know no toolkit ask of the driver, or of the fake device.
namespace deckle::cuda {

inline constexpr int kMaxDevices = 64;

/// The stream of those who name none.
Stream default_stream(Device device);

}  // namespace deckle::cuda
