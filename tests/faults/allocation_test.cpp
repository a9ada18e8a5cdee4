// Every allocation of Deckle's allocator in a training step fails in turn: the step ends with Error(out_of_memory), nothing is
// leaked, and later steps give what they would have given. The allocator takes its memory from aligned_alloc, which fails here;
// what other libraries take by malloc (OpenBLAS, oneDNN, OpenMP, the C library) is their own.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "deckle/core/allocator.h"
#include "deckle/deckle.h"

namespace {

// Allocations until the one that fails; negative: none does.
std::atomic<int64_t> countdown{-1};
std::atomic<int64_t> live{0};  // what operator new gave and nobody returned

bool fails() { return countdown.load(std::memory_order_relaxed) >= 0 && countdown.fetch_sub(1) == 0; }

void* take(size_t size) {
  void* const block = std::malloc(size + (size == 0));
  if (block == nullptr) throw std::bad_alloc();
  ++live;
  return block;
}

void give(void* block) {
  if (block == nullptr) return;
  --live;
  std::free(block);
}

}  // namespace

void* operator new(size_t size) { return take(size); }
void* operator new[](size_t size) { return take(size); }
void operator delete(void* block) noexcept { give(block); }
void operator delete[](void* block) noexcept { give(block); }
void operator delete(void* block, size_t) noexcept { give(block); }
void operator delete[](void* block, size_t) noexcept { give(block); }

// Deckle's allocator tries again after it has emptied its cache: so a failure is two in a row.
extern "C" void* aligned_alloc(size_t alignment, size_t size) {
  thread_local bool again = false;
  if (again || fails()) {
    again = !again;
    return nullptr;
  }
  void* block = nullptr;
  return posix_memalign(&block, alignment, size) == 0 ? block : nullptr;
}

namespace deckle {
namespace {

/// A small model, its optimizer and a batch: always the same.
struct Training {
  NestedTensor batch = NestedTensor::from_lengths(arange(0, 15), {5, 1, 9});
  nn::DecoderLM model{{.vocab = 16, .width = 16, .depth = 2, .heads = 2}};
  optim::AdamW optimizer{model.parameters(), {.lr = 1e-2}};

  double step() {
    const Tensor loss = model.loss(batch);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return loss.item();
  }
};

std::vector<double> two_steps() {
  Training training;
  const double first = training.step();
  return {first, training.step()};
}

/// A step in which allocation `number`, counted from 0, fails; whether it came to that.
bool fails_without(Training& training, int64_t number) {
  countdown = number;
  bool failed = false;
  try {
    training.step();
  } catch (const Error& error) {
    failed = true;
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory) << error.what();
  }
  countdown = -1;
  return failed;
}

TEST(Allocation, EachOfATrainingStepMayFail) {
  set_num_threads(2);
  const std::vector<double> expected = two_steps();
  two_steps();
  empty_cache();
  const int64_t blocks = live, memory = memory_stats().in_use;
  int64_t number = 0;
  for (bool failed = true; failed; ++number) {
    {
      Training training;
      empty_cache();  // so that tensors take fresh memory
      failed = fails_without(training, number);
      training.step();  // what failed can be tried again
    }
    empty_cache();
    ASSERT_EQ(live, blocks) << "leaked after the failure of allocation " << number;
    ASSERT_EQ(memory_stats().in_use, memory) << "leaked after the failure of allocation " << number;
    ASSERT_EQ(two_steps(), expected) << "after the failure of allocation " << number;
  }
  std::printf("%ld allocations of a step failed in turn\n", static_cast<long>(number - 1));
  EXPECT_GT(number, 50);
}

}  // namespace
}  // namespace deckle
