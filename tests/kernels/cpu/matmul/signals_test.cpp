// A handler may run at any moment of a product, on the stack of the thread that it interrupts.

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"

namespace deckle::kernels::cpu {
void mm(const Context&, const View& self, const View& mat2, const View& result);
}

namespace deckle {
namespace {

// Both as plain numbers, since a handler may use little else.
uintptr_t stack_begin, stack_end;
volatile sig_atomic_t handled = 0, elsewhere = 0;

void on_alarm(int, siginfo_t*, void* context) {
  const auto pointer = static_cast<uintptr_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP]);
  handled = handled + 1;
  if (pointer < stack_begin || pointer > stack_end) elsewhere = elsewhere + 1;
}

/// SIGALRM to this thread every 50 us while it lives, handled on a stack of its own, so that a failure of the test is no crash.
class Alarms {
 public:
  Alarms() {
    pthread_attr_t attributes;
    void* begin = nullptr;
    size_t size = 0;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &begin, &size);
    pthread_attr_destroy(&attributes);
    stack_begin = reinterpret_cast<uintptr_t>(begin);
    stack_end = stack_begin + size;
    const stack_t stack{.ss_sp = memory_.data(), .ss_flags = 0, .ss_size = memory_.size()};
    EXPECT_EQ(sigaltstack(&stack, &stack_before_), 0);
    struct sigaction action {};
    action.sa_sigaction = on_alarm;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    EXPECT_EQ(sigaction(SIGALRM, &action, &before_), 0);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGALRM;
    event._sigev_un._tid = gettid();
    EXPECT_EQ(timer_create(CLOCK_MONOTONIC, &event, &timer_), 0);
    const itimerspec every{{0, 50'000}, {0, 50'000}};
    EXPECT_EQ(timer_settime(timer_, 0, &every, nullptr), 0);
  }
  ~Alarms() {
    timer_delete(timer_);
    sigaction(SIGALRM, &before_, nullptr);
    sigaltstack(&stack_before_, nullptr);
  }
  Alarms(const Alarms&) = delete;
  Alarms& operator=(const Alarms&) = delete;

 private:
  std::array<char, 1 << 18> memory_;
  stack_t stack_before_{};
  timer_t timer_{};
  struct sigaction before_ {};
};

TEST(Signals, FindTheStackOfTheThreadInEveryProduct) {
  set_num_threads(1);
  for (const DType dtype : {DType::bfloat16, DType::float32, DType::float64}) {
    for (const bool transposed : {false, true}) {
      // Rows of a wider matrix.
      testing::Buffer a = testing::random_normal({512, 640}, dtype), b = testing::random_normal({512, 640}, dtype);
      for (testing::Buffer* operand : {&a, &b}) operand->view.sizes[1] = 512;
      if (transposed) std::swap(a.view.strides[0], a.view.strides[1]);
      const testing::Buffer c = testing::poisoned({512, 512}, dtype);
      handled = 0;
      elsewhere = 0;
      {
        const Alarms alarms;
        for (int i = 0; i < 1000 && (i < 5 || handled < 20); ++i) kernels::cpu::mm({}, a.view, b.view, c.view);
      }
      EXPECT_GE(handled, 20) << name(dtype);
      EXPECT_EQ(elsewhere, 0) << name(dtype) << " of " << handled;
    }
  }
}

}  // namespace
}  // namespace deckle
