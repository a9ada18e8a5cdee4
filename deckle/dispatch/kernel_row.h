#pragma once

#include "deckle/base/check.h"
#include "deckle/base/device.h"
#include "deckle/core/tensor.h"
#include "deckle/kernels/args/context.h"

namespace deckle::dispatch {

/// The kernels of one op, one slot per device, constant-initialised by generated code. A null slot means that the op's
/// entry claims no kernel there; a claimed kernel that is missing does not link.
template <typename Kernel>
struct KernelRow {
  Kernel* cpu = nullptr;
  Kernel* cuda = nullptr;

  /// The kernel of that device, or an Error that names it.
  Kernel& on(Device device) const {
    Kernel* const kernel = device.kind == DeviceKind::cpu ? cpu : cuda;
    if (kernel == nullptr) fail(ErrorKind::not_implemented, "no kernel for {}", to_string(device));
    return *kernel;
  }
};

/// All defined tensors must live on one device; returns it.
Device common_device(TensorList tensors);

}  // namespace deckle::dispatch
