// Children of fork, which have a copy of this process and no GPU.
#include <pthread.h>

#include "deckle/base/check.h"
#include "deckle/core/cuda/driver.h"

namespace deckle::cuda {

std::atomic<bool> is_child_of_fork{false};

void watch_forks() {
  [[maybe_unused]] static const int registered =
      pthread_atfork(nullptr, nullptr, [] { is_child_of_fork.store(true, std::memory_order_relaxed); });
}

void refuse_child_of_fork(Device device) {
  fail(ErrorKind::runtime, "{} asked of a child of fork, which cannot use the GPUs of its parent (expected a new process)",
       to_string(device));
}

}  // namespace deckle::cuda
