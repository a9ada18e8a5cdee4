#include "deckle/core/generator.h"

#include <atomic>

namespace deckle {
namespace {

// The last seed and how many there were; a thread that has seen fewer takes it. Two threads that call manual_seed at once leave
// one of their seeds.
std::atomic<uint64_t> last_seed{0};
std::atomic<uint64_t> seedings{0};

}  // namespace

Generator& default_generator() {
  thread_local Generator generator;
  thread_local uint64_t seen = 0;
  if (const uint64_t now = seedings.load(std::memory_order_acquire); seen != now) {
    seen = now;
    generator.set_state(last_seed.load(std::memory_order_relaxed), 0);
  }
  return generator;
}

void manual_seed(uint64_t seed) {
  last_seed.store(seed, std::memory_order_relaxed);
  seedings.fetch_add(1, std::memory_order_release);
}

}  // namespace deckle
