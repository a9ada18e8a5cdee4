#include "deckle/ops/on_device.h"

#include "deckle/ops/generated/factory.h"
#include "deckle/ops/launch.h"

namespace deckle {

Tensor zeros(Ints sizes, DType dtype, Device device) {
  const OnDevice there(device);
  return zeros(sizes, dtype);
}
Tensor ones(Ints sizes, DType dtype, Device device) {
  const OnDevice there(device);
  return ones(sizes, dtype);
}
Tensor full(Ints sizes, const Scalar& value, DType dtype, Device device) {
  const OnDevice there(device);
  return full(sizes, value, dtype);
}
Tensor rand(Ints sizes, const RandOptions& options, Device device) {
  const OnDevice there(device);
  return rand(sizes, options);
}
Tensor randn(Ints sizes, const RandnOptions& options, Device device) {
  const OnDevice there(device);
  return randn(sizes, options);
}

}  // namespace deckle
