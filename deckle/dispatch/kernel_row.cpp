#include "deckle/dispatch/kernel_row.h"

namespace deckle::dispatch {

void refuse_without_kernel(Device device) {
  if (device.is_cpu()) fail(ErrorKind::not_implemented, "no kernel for {}", to_string(device));
  fail(ErrorKind::not_implemented, "no CUDA kernel, and its operands are on {} (expected them on the cpu: x.to(Device()))",
       to_string(device));
}

Device common_device(std::span<const Tensor> tensors) { return common_device_of_lists({tensors}); }

Device common_device_of_lists(std::initializer_list<std::span<const Tensor>> lists) {
  const Tensor* first = nullptr;
  for (const std::span<const Tensor> list : lists) {
    for (const Tensor& tensor : list) {
      if (!tensor.defined()) continue;
      if (first == nullptr) first = &tensor;
      const Device one = first->device(), other = tensor.device();
      check(one == other, "operands on {} and {} (expected one device: x.to(Device::cuda({})))", one, other,
            one.is_cuda() ? one.index : other.index);
    }
  }
  return first != nullptr ? first->device() : Device{};
}

}  // namespace deckle::dispatch
