#pragma once

#include "deckle/base/check.h"
#include "deckle/base/device.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/tensor.h"
#include "deckle/kernels/args/context.h"

/// The second slot of a row written by hand: a kernel of kernels/cuda, none in a build without CUDA.
#ifdef DECKLE_WITH_CUDA
#define DECKLE_CUDA_KERNEL(name) &kernels::cuda::name
#else
#define DECKLE_CUDA_KERNEL(name) nullptr
#endif

namespace deckle::dispatch {

[[noreturn]] void refuse_without_kernel(Device device);

/// The kernels of one op, one slot per device, constant-initialised by generated code. A null slot means that the op's
/// entry claims no kernel there; a claimed kernel that is missing does not link.
template <typename Kernel>
struct KernelRow {
  Kernel* cpu = nullptr;
  Kernel* cuda = nullptr;

  /// The kernel of that device, or an Error that names it: nothing is computed on another one. On fake devices the CPU's stand
  /// in.
  Kernel& on(Device device) const {
    Kernel* const kernel = device.kind == DeviceKind::cpu || cuda::fake() ? cpu : cuda;
    if (kernel == nullptr) [[unlikely]]
      refuse_without_kernel(device);
    return *kernel;
  }
};

/// KernelRow{&cpu, DECKLE_CUDA_KERNEL(cuda)}.
template <typename Kernel, typename Other>
KernelRow(Kernel*, Other) -> KernelRow<Kernel>;

/// All defined tensors must live on one device; returns it.
Device common_device(std::span<const Tensor> tensors);
/// The same of several lists beside each other.
Device common_device_of_lists(std::initializer_list<std::span<const Tensor>> lists);

template <typename... Lists>
Device common_device(std::span<const Tensor> tensors, const Lists&... more) {
  return common_device_of_lists({tensors, more...});
}
template <typename... Lists>
Device common_device(std::initializer_list<Tensor> tensors, const Lists&... lists) {
  return common_device(std::span<const Tensor>(tensors.begin(), tensors.size()), lists...);
}

}  // namespace deckle::dispatch
