#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define DECKLE_HOST_AND_DEVICE __host__ __device__ __forceinline__
#else
#define DECKLE_HOST_AND_DEVICE
#endif

namespace deckle {

/// Counter-based random numbers (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), Philox4x32: what its
/// rounds multiply by, and what is added to the key after each.
namespace philox {

inline constexpr uint32_t kFactor0 = 0xD2511F53u, kFactor1 = 0xCD9E8D57u;
inline constexpr uint32_t kStep0 = 0x9E3779B9u, kStep1 = 0xBB67AE85u;

/// kRounds rounds, on hosts and GPUs. Vectors of a CPU have loops of their own (kernels/cpu/random/words.cpp,
/// kernels/cpu/attention/dropout-inl.h), which tests hold to this one.
template <int kRounds>
DECKLE_HOST_AND_DEVICE constexpr void rounds(uint32_t (&counter)[4], uint32_t key0, uint32_t key1) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kFactor0} * counter[0], product1 = uint64_t{kFactor1} * counter[2];
    counter[0] = static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0;
    counter[1] = static_cast<uint32_t>(product1);
    counter[2] = static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1;
    counter[3] = static_cast<uint32_t>(product0);
    key0 += kStep0;
    key1 += kStep1;
  }
}

}  // namespace philox

#undef DECKLE_HOST_AND_DEVICE

/// A pure function of (key, counter): results depend on neither thread nor tile.
template <int kRounds = 10>
struct Philox {
  using Words = std::array<uint32_t, 4>;

  static Words generate(const Words& counter, uint32_t key0, uint32_t key1) {
    uint32_t words[4] = {counter[0], counter[1], counter[2], counter[3]};
    philox::rounds<kRounds>(words, key0, key1);
    return {words[0], words[1], words[2], words[3]};
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
