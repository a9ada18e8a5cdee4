#pragma once

#include <gtest/gtest.h>

#include "deckle/base/device.h"
#include "deckle/core/cuda/device.h"

namespace deckle {

inline constexpr Device kGpu = Device::cuda();

}  // namespace deckle

/// Ends a test where no GPU can be used.
#define NEEDS_GPU() \
  if (deckle::cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU"

/// Ends a test of what only kernels of a GPU do.
#define NEEDS_CUDA_KERNELS() \
  if (deckle::cuda::device_count() == 0 || deckle::cuda::fake()) GTEST_SKIP() << "needs a GPU, and a build with CUDA"
