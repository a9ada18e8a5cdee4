#pragma once

#include "deckle/base/device.h"

namespace deckle {

/// Where factories make tensors in this thread: the CPU, or what the innermost OnDevice says.
Device factory_device();

/// For its lifetime, factories of this thread make their tensors on a device. Composites and the formulas of derivatives run
/// under one of the device of their operands, so that constants in them are where they are needed.
class OnDevice {
 public:
  explicit OnDevice(Device device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  Device former_;
};

}  // namespace deckle
