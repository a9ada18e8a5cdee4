#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "deckle/kernels/args/view.h"

namespace deckle::testing {

/// Lengths of components with one ragged dim, and the view of them that kernels take.
struct Components {
  std::vector<int64_t> lengths, offsets = {0};
  explicit Components(std::vector<int64_t> sizes) : lengths(std::move(sizes)) {
    for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  }
  RaggedView view() const { return {count(), 1, lengths.data(), offsets.data()}; }
  int64_t count() const { return static_cast<int64_t>(lengths.size()); }
};

}  // namespace deckle::testing
