#pragma once

#include <atomic>

#include "deckle/base/device.h"
#include "deckle/base/stream.h"

/// What the parts of this folder that know no toolkit ask of the driver, or of the fake device.
namespace deckle::cuda {

inline constexpr int kMaxDevices = 64;

/// The stream of those who name none.
Stream default_stream(Device device);

/// Whether a stream is the device's default one, or was made for it by new_stream.
bool has_stream(Device device, Stream stream);

/// The host waits for what every stream of the device was given: not for the device, which CUDA refuses to all threads while one
/// records a graph.
void wait_for_streams(Device device);

/// Forks are noticed from here on: a process that asks for GPUs has none left in its children.
void watch_forks();
/// Whether this process is such a child. Locks of its parent may be held there, by threads that it has not: what it frees is left
/// where it is.
extern std::atomic<bool> is_child_of_fork;
inline bool in_child_of_fork() noexcept { return is_child_of_fork.load(std::memory_order_relaxed); }
[[noreturn]] void refuse_child_of_fork(Device device);
/// Throws, with what to do, if it is.
inline void refuse_in_child_of_fork(Device device) {
  if (in_child_of_fork()) [[unlikely]]
    refuse_child_of_fork(device);
}

}  // namespace deckle::cuda
