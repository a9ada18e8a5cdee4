#pragma once

#include "deckle/base/check.h"
#include "deckle/core/device.h"
#include "deckle/core/tensor.h"
#include "deckle/kernels/args/context.h"

namespace deckle::dispatch {

/// The kernels of one op, one slot per device, constant-initialised by generated code. A null slot means that the op's
/// entry claims no kernel there; a claimed kernel that is missing does not link.
template <typename Cpu, typename Cuda = void*>
struct KernelRow {
  Cpu* cpu = nullptr;
  Cuda* cuda = nullptr;

  /// The CPU kernel, or an Error that names the device.
  Cpu& on(Device device) const {
    if (device.kind != DeviceKind::cpu || cpu == nullptr) {
      fail(ErrorKind::not_implemented, "no kernel for {}", to_string(device));
    }
    return *cpu;
  }
};

/// All defined tensors must live on one device; returns it.
Device common_device(TensorList tensors);

}  // namespace deckle::dispatch
