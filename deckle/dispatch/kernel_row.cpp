#include "deckle/dispatch/kernel_row.h"

#include "deckle/core/cuda/device.h"

namespace deckle::dispatch {

void require_stand_in(Device device) {
  if (device.is_cuda() && cuda::fake()) return;
  if (device.is_cpu()) fail(ErrorKind::not_implemented, "no kernel for {}", to_string(device));
  fail(ErrorKind::not_implemented, "no CUDA kernel, and its operands are on {} (expected them on the cpu: x.to(Device()))",
       to_string(device));
}

Device common_device(std::span<const Tensor> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (first == nullptr) first = &tensor;
    check(tensor.device() == first->device(), "operands on {} and {} (expected one device: x.to({}))", to_string(first->device()),
          to_string(tensor.device()),
          first->device().is_cuda() ? fmt::format("Device::cuda({})", first->device().index)
                                    : fmt::format("Device::cuda({})", tensor.device().index));
  }
  return first != nullptr ? first->device() : Device{};
}

}  // namespace deckle::dispatch
