#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace deckle {

/// Counter-based random numbers (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
/// A pure function of (key, counter): results depend on neither thread nor tile.
template <int kRounds = 10>
struct Philox {
  using Words = std::array<uint32_t, 4>;

  static Words generate(Words counter, uint32_t key0, uint32_t key1) {
    for (int round = 0; round < kRounds; ++round) {
      const uint64_t product0 = uint64_t{0xD2511F53u} * counter[0];
      const uint64_t product1 = uint64_t{0xCD9E8D57u} * counter[2];
      counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
                 static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    return counter;
  }
};

/// A reserved piece of a random stream: element i uses word i % 4 of the call with counter offset + i / 4.
struct PhiloxStream {
  uint64_t seed = 0;
  uint64_t offset = 0;
  /// On a GPU, of work in a graph: the seed, and what is added to the offset, at each replay. Null: they are those above.
  const uint64_t* standing = nullptr;

  Philox<10>::Words block(uint64_t index) const {
    const uint64_t counter = offset + index;
    return Philox<10>::generate({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0},
                                static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  }
};

}  // namespace deckle
