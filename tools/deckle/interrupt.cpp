#include "tools/deckle/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>

namespace deckle::cli {

namespace {

constexpr int kInterruptedCode = 130;  // 128 + SIGINT, as shells report it

std::atomic<int> signals{0};
static_assert(std::atomic<int>::is_always_lock_free, "the handler may use only lock-free atomics");

void on_signal(int) {
  if (signals.fetch_add(1) > 0) ::_exit(kInterruptedCode);
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

bool interrupted() { return signals.load() > 0; }

}  // namespace deckle::cli
