#include "deckle/core/generator.h"

#include <atomic>
#include <mutex>

#include "deckle/base/error.h"
#include "deckle/core/cuda/capture.h"
#include "deckle/core/draws.h"

namespace deckle {
namespace {

/// What the threads' generators start from. A thread that has seen another number of seedings takes the next part of the stream.
struct Seeding {
  std::mutex mutex;
  uint64_t seed = 0;
  uint64_t parts = 0;               // that threads have taken
  std::atomic<uint64_t> count = 1;  // of seedings, the start among them
};

Seeding& seeding() {
  static Seeding state;
  return state;
}

struct ThreadGenerator {
  Generator generator;
  uint64_t seen = 0;

  void start(Seeding& state) {  // under its mutex
    seen = state.count.load(std::memory_order_relaxed);
    generator.restart(state.seed, state.parts++ * kThreadOffset);
  }
};

ThreadGenerator& own() {
  thread_local ThreadGenerator own;
  return own;
}

}  // namespace

void Generator::set_state(uint64_t seed, uint64_t offset) {
  cuda::refuse_in_capture("a generator's state set, as each replay goes on where the generator stands");
  restart(seed, offset);
}

PhiloxStream Generator::reserve(int64_t count, Device device) {
  Draw draw{{seed_, offset_}, static_cast<uint64_t>((count + 3) / 4)};
  if (cuda::capturing()) [[unlikely]]
    draw.stream = cuda::recorded_draw(*this, device);
  if (!DrawScope::replace(draw)) offset_ += draw.blocks;
  return draw.stream;
}

Generator& default_generator() {
  Seeding& state = seeding();
  ThreadGenerator& mine = own();
  // A graph that draws from it has its numbers by how far they lie behind the first: another thread's seed waits for its end.
  if (mine.seen != state.count.load(std::memory_order_acquire) && !cuda::draws_recorded(mine.generator)) {
    const std::lock_guard lock(state.mutex);
    mine.start(state);
  }
  return mine.generator;
}

void manual_seed(uint64_t seed) {
  call_as("manual_seed", [] { cuda::refuse_in_capture("a seed set, as each replay goes on where the generator stands"); });
  Seeding& state = seeding();
  const std::lock_guard lock(state.mutex);
  state.seed = seed;
  state.parts = 0;
  state.count.fetch_add(1, std::memory_order_release);
  own().start(state);
}

}  // namespace deckle
