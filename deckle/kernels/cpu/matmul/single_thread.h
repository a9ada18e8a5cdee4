#pragma once

#include <omp.h>

namespace deckle::kernels::cpu::matmul {

/// While it lives, libraries that read OpenMP's thread count on this thread run single-threaded: oneDNN and OpenBLAS partition
/// their work by that count, so results would depend on it.
class SingleThread {
 public:
  SingleThread() : before_(omp_get_max_threads()) {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~SingleThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  int before_;
};

}  // namespace deckle::kernels::cpu::matmul
