#include "deckle/dispatch/kernel_row.h"

#include <algorithm>
#include <optional>

#include "deckle/core/cuda/device.h"

namespace deckle::dispatch {

void require_stand_in(Device device) {
  if (device.is_cuda() && cuda::fake()) return;
  if (device.is_cpu()) fail(ErrorKind::not_implemented, "no kernel for {}", to_string(device));
  fail(ErrorKind::not_implemented, "no CUDA kernel, and its operands are on {} (expected them on the cpu: x.to(Device()))",
       to_string(device));
}

namespace {

void require_same(Device first, Device other) {
  check(first == other, "operands on {} and {} (expected one device: x.to(Device::cuda({})))", to_string(first), to_string(other),
        first.is_cuda() ? first.index : other.index);
}

}  // namespace

Device common_device(std::span<const Tensor> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor& tensor : tensors) {
    if (!tensor.defined()) continue;
    if (first == nullptr) first = &tensor;
    require_same(first->device(), tensor.device());
  }
  return first != nullptr ? first->device() : Device{};
}

Device common_device_of_lists(std::initializer_list<std::span<const Tensor>> lists) {
  std::optional<Device> device;
  for (const std::span<const Tensor> list : lists) {
    if (!std::ranges::any_of(list, &Tensor::defined)) continue;
    const Device there = common_device(list);
    require_same(device.value_or(there), there);
    device = there;
  }
  return device.value_or(Device{});
}

}  // namespace deckle::dispatch
