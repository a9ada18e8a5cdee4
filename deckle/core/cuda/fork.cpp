// Children of fork, which have a copy of this process and no GPU.
#include <pthread.h>

#include <atomic>

#include "deckle/base/check.h"
#include "deckle/core/cuda/driver.h"

namespace deckle::cuda {
namespace {

std::atomic<bool> is_child{false};

}  // namespace

void watch_forks() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { is_child.store(true, std::memory_order_relaxed); });
}

bool in_child_of_fork() noexcept { return is_child.load(std::memory_order_relaxed); }

void refuse_in_child_of_fork(Device device) {
  if (in_child_of_fork()) [[unlikely]]
    fail(ErrorKind::runtime, "{} asked of a child of fork, which cannot use the GPUs of its parent (expected a new process)",
         to_string(device));
}

}  // namespace deckle::cuda
