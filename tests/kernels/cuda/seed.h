#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace deckle::testing {

/// The seed of this run: DECKLE_TEST_SEED or a fresh one, printed once so that a failure can be repeated.
inline uint64_t seed() {
  static const uint64_t value = [] {
    const char* const fixed = std::getenv("DECKLE_TEST_SEED");
    const uint64_t chosen = fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
    std::printf("DECKLE_TEST_SEED=%llu\n", static_cast<unsigned long long>(chosen));
    std::fflush(stdout);
    return chosen;
  }();
  return value;
}

}  // namespace deckle::testing
