#include "tools/deckle/interrupt.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace deckle::cli {

namespace {

constexpr int kInterruptedCode = 130;  // 128 + SIGINT, as shells report it

/// One wish may arrive as several signals: `timeout` sends its own to the process and to its group.
constexpr int64_t kOneWish = 100'000'000;  // nanoseconds

std::atomic<int64_t> first{0};  // when the first came; 0: none has
static_assert(std::atomic<int64_t>::is_always_lock_free, "the handler may use only lock-free atomics");

void on_signal(int) {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t now = int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec + 1;
  int64_t before = 0;
  if (!first.compare_exchange_strong(before, now) && now - before > kOneWish) ::_exit(kInterruptedCode);
}

}  // namespace

void install_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);  // nohup asks to go on
}

void ignore_write_signals() {
  ::signal(SIGXFSZ, SIG_IGN);
  ::signal(SIGPIPE, SIG_IGN);
}

bool interrupted() { return first.load() > 0; }

}  // namespace deckle::cli
