#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>

namespace deckle::testing {

/// The seed of this run: DECKLE_TEST_SEED or a fresh one, printed once so that a failure can be repeated.
inline uint64_t seed() {
  static const uint64_t value = [] {
    const char* const fixed = std::getenv("DECKLE_TEST_SEED");
    const uint64_t chosen = fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
    std::cout << "DECKLE_TEST_SEED=" << chosen << std::endl;
    return chosen;
  }();
  return value;
}

}  // namespace deckle::testing
