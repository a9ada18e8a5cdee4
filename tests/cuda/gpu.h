#pragma once

#include <gtest/gtest.h>

#include "deckle/core/cuda/device.h"

/// Ends a test where no GPU can be used.
#define NEEDS_GPU() \
  if (deckle::cuda::device_count() == 0) GTEST_SKIP() << "needs a GPU"
