#pragma once

#include "deckle/base/device.h"

/// GPUs of NVIDIA, as the rest of the library sees them; no header of the toolkit is needed to include this. A build without the
/// toolkit has all of these functions too (fake.cpp): there is no GPU, and what needs one says so in one sentence.
namespace deckle::cuda {

/// Whether this build has CUDA kernels.
bool built();

/// How many GPUs there are; 0 without a driver.
int device_count();

/// Whether they are fake ones, for tests: in a build without CUDA, and in the second library that a build with CUDA makes for its
/// tests, DECKLE_FAKE_DEVICES=2 makes two devices whose memory is memory of the host that only kernels can reach, those of the
/// CPU. What reads or writes it otherwise, as code for the host, crashes.
bool fake();

/// Throws, with what to do, unless `device` is a GPU of this machine that this build can use.
void require(Device device);

/// Waits for everything that was given to the device, and throws what went wrong meanwhile: kernels report an index out of range
/// only then.
void synchronize(Device device);

/// Makes `device` the one that CUDA calls of this thread go to, and restores the former one.
class DeviceGuard {
 public:
  explicit DeviceGuard(Device device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int former_ = -1;  // -1: nothing to restore
};

}  // namespace deckle::cuda
