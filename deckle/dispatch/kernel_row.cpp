#include "deckle/dispatch/kernel_row.h"

namespace deckle::dispatch {

Device common_device(TensorList tensors) {
  const Tensor* first = nullptr;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (first == nullptr) first = &tensor;
    check(tensor.device() == first->device(), "tensors on different devices: {} and {} (expected one)",
          to_string(first->device()), to_string(tensor.device()));
  }
  return first != nullptr ? first->device() : Device{};
}

}  // namespace deckle::dispatch
