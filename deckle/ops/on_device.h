#pragma once

#include "deckle/core/factory_device.h"
#include "deckle/core/tensor.h"
#include "deckle/ops/generated/random.h"

namespace deckle {

// Factories that make their tensor on a device; without one they make it on the CPU.
Tensor zeros(Ints sizes, DType dtype, Device device);
Tensor ones(Ints sizes, DType dtype, Device device);
Tensor full(Ints sizes, const Scalar& value, DType dtype, Device device);
Tensor rand(Ints sizes, const RandOptions& options, Device device);
Tensor randn(Ints sizes, const RandnOptions& options, Device device);

}  // namespace deckle
