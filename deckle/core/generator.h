#pragma once

#include <cstdint>

#include "deckle/base/device.h"
#include "deckle/base/philox.h"

namespace deckle {

/// An explicit stream of random numbers over Philox4x32-10. Its whole state is two integers, which checkpoints keep.
/// Results depend on the order of calls alone, never on threads. Not thread-safe: one generator per thread.
class Generator {
 public:
  explicit Generator(uint64_t seed = 0) : seed_(seed) {}

  uint64_t seed() const { return seed_; }
  uint64_t offset() const { return offset_; }
  /// Refused while a cuda::Graph is recorded, whose replays go on where the generator stands: a state set there would be in none.
  void set_state(uint64_t seed, uint64_t offset);

  /// Takes the next `count` 32-bit words of the stream, in whole blocks of four, for work on `device`. In a cuda::Graph that is
  /// recorded they are the next ones at each replay; the host cannot have them there.
  PhiloxStream reserve(int64_t count, Device device = {});

  /// The same for what records graphs and starts the threads' generators.
  void restart(uint64_t seed, uint64_t offset) {
    seed_ = seed;
    offset_ = offset;
  }

 private:
  uint64_t seed_;
  uint64_t offset_ = 0;
};

/// The calling thread's generator, used where an op's Generator argument is not given. All have the seed that manual_seed gave
/// last, else 0, and each a part of that stream which no other draws from: the thread that called manual_seed the first, the
/// others the next ones in the order in which they draw. What several threads draw is repeatable with a Generator for each.
Generator& default_generator();

/// Restarts the default generators of all threads with this seed. Part n of the stream begins at offset n * kThreadOffset.
/// Refused while a cuda::Graph is recorded, as Generator::set_state is; called by another thread meanwhile, it counts for that
/// graph's replays.
void manual_seed(uint64_t seed);
inline constexpr uint64_t kThreadOffset = uint64_t{1} << 44;

}  // namespace deckle
