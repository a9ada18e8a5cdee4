#include "deckle/base/parallel.h"

#include <omp.h>
#include <pthread.h>
#include <sys/stat.h>

#include <atomic>
#include <exception>
#include <mutex>

#include "deckle/base/check.h"

namespace deckle {
namespace {

std::atomic<int> thread_count{0};  // 0: not decided yet
thread_local bool inside = false;

// An OpenMP pool does not survive a fork, whoever started it: the child of a process with more than one thread runs serially.
std::atomic<bool> forked{false};
std::atomic<bool> had_threads{false};

void before_fork() {
  struct stat tasks;  // the folder has a link for each thread, beside its own two
  had_threads.store(stat("/proc/self/task", &tasks) != 0 || tasks.st_nlink != 3);
}

void in_child() {
  if (had_threads.load()) forked.store(true);
}

// When the library is loaded: code that never calls it may start the pool, and a child be the first to call it.
[[maybe_unused]] const int registered = pthread_atfork(before_fork, nullptr, in_child);

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
  }
  return count;
}

void set_num_threads(int count) {
  call_as("set_num_threads", [&] { check(count >= 1, "{} threads (expected 1 or more)", count); });
  thread_count.store(count, std::memory_order_relaxed);
}

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
