#include <cstdio>
#include <cstdlib>
#include <memory>

#include "cuda_runtime_api.h"

namespace emulated {

dim3 thread, block, blocks;

namespace {

constexpr size_t kStack = size_t{64} << 10;
constexpr unsigned kWarp = 32;

extern "C" void emulated_switch(void** from, void* to);
// Saves the registers that a call preserves, and goes on on another stack.
asm(R"(
.text
.globl emulated_switch
emulated_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

enum class Waits { no, for_warp, for_block };

struct Fibre {
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStack);
  void* at = nullptr;
  bool done = false;
  Waits waits = Waits::no;
};

std::vector<Fibre> fibres;
std::vector<uint64_t> exchanged;
void* scheduler;
unsigned running;
const std::function<void()>* work;
int arriving, arrived;

void wait(Waits waits) {
  const unsigned mine = running;
  fibres[mine].waits = waits;
  emulated_switch(&fibres[mine].at, scheduler);
}

void start() {
  (*work)();
  fibres[running].done = true;
  wait(Waits::no);
  std::abort();  // nobody goes on with it
}

void prepare(Fibre& fibre) {
  auto* top = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(fibre.stack.get() + kStack) / 16 * 16);
  *--top = nullptr;  // keeps the stack aligned as after a call
  *--top = reinterpret_cast<void*>(&start);
  for (int n = 0; n < 6; ++n) *--top = nullptr;
  fibre.at = top;
  fibre.done = false;
  fibre.waits = Waits::no;
}

/// Lets fibres [begin, end) go on if all that are left wait for the same.
bool release(unsigned begin, unsigned end, Waits waits) {
  bool any = false;
  for (unsigned t = begin; t < end; ++t) {
    if (!fibres[t].done && fibres[t].waits != waits) return false;
    any = any || !fibres[t].done;
  }
  for (unsigned t = begin; t < end; ++t) fibres[t].waits = Waits::no;
  return any;
}

void run_block(unsigned threads) {
  for (unsigned t = 0; t < threads; ++t) prepare(fibres[t]);
  for (;;) {
    bool left = false, released = false;
    for (unsigned t = 0; t < threads; ++t) {
      if (fibres[t].done || fibres[t].waits != Waits::no) continue;
      running = t;
      thread = dim3(t, 0, 0);
      emulated_switch(&scheduler, fibres[t].at);
    }
    for (unsigned t = 0; t < threads; ++t) left = left || !fibres[t].done;
    if (!left) return;
    for (unsigned t = 0; t < threads; t += kWarp) released |= release(t, std::min(t + kWarp, threads), Waits::for_warp);
    if (release(0, threads, Waits::for_block)) {
      released = true;
      arrived = std::exchange(arriving, 0);
    }
    if (!released) std::fputs("threads of a block wait for each other at different barriers\n", stderr), std::abort();
  }
}

}  // namespace

void barrier() { wait(Waits::for_block); }

int barrier_count(int value) {
  arriving += value;
  wait(Waits::for_block);
  return arrived;
}

uint64_t exchange(uint64_t value, unsigned mask) {
  const unsigned mine = running;
  exchanged[mine] = value;
  wait(Waits::for_warp);
  value = exchanged[mine ^ mask];
  wait(Waits::for_warp);
  return value;
}

void run(dim3 grid, unsigned threads, const std::function<void()>& body) {
  while (fibres.size() < threads) fibres.emplace_back();
  exchanged.resize(threads);
  work = &body;
  blocks = grid;
  for (unsigned y = 0; y < grid.y; ++y) {
    for (unsigned x = 0; x < grid.x; ++x) {
      block = dim3(x, y, 0);
      run_block(threads);
    }
  }
}

}  // namespace emulated
