#include "deckle/base/parallel.h"

#include <omp.h>
#include <pthread.h>

#include <atomic>
#include <exception>
#include <mutex>

#include "deckle/base/check.h"

namespace deckle {
namespace {

std::atomic<int> thread_count{0};  // 0: not decided yet
std::atomic<bool> forked{false};   // an OpenMP pool does not survive fork: the child runs serially
thread_local bool inside = false;

struct InsideGuard {
  bool before = inside;
  InsideGuard() { inside = true; }
  ~InsideGuard() { inside = before; }
};

}  // namespace

int num_threads() {
  int count = thread_count.load(std::memory_order_relaxed);
  if (count == 0) {
    count = std::max(1, omp_get_max_threads());
    thread_count.store(count, std::memory_order_relaxed);
    pthread_atfork(nullptr, nullptr, [] { forked.store(true); });
  }
  return count;
}

void set_num_threads(int count) {
  call_as("set_num_threads", [&] { check(count >= 1, "{} threads (expected 1 or more)", count); });
  num_threads();  // registers the fork handler
  thread_count.store(count, std::memory_order_relaxed);
}

bool in_parallel() { return inside; }

void detail::run_chunks(int64_t chunks, const std::function<void(int64_t)>& body) {
  const int threads = static_cast<int>(std::min<int64_t>(num_threads(), chunks));
  if (threads == 1 || inside || forked.load(std::memory_order_relaxed)) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) body(chunk);
    return;
  }
  std::exception_ptr error;
  std::mutex error_mutex;
  std::atomic<bool> failed{false};
#pragma omp parallel num_threads(threads)
  {
    const InsideGuard guard;
#pragma omp for schedule(dynamic, 1) nowait
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      if (failed.load(std::memory_order_relaxed)) continue;
      try {
        body(chunk);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (!error) error = std::current_exception();
        failed.store(true, std::memory_order_relaxed);
      }
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace deckle
