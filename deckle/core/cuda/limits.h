#pragma once

#include "deckle/base/device.h"

namespace deckle::cuda {

/// What kernels ask of a device before they are chosen. 0: not known.
struct DeviceLimits {
  int capability_major = 0, capability_minor = 0;
  int block_bytes = 0;  // of shared memory
};

/// Of a GPU, asked once; not known of the CPU and of fake devices, which have no kernels of their own.
DeviceLimits device_limits(Device device);

}  // namespace deckle::cuda
