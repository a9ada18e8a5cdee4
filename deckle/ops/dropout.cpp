#include "deckle/base/check.h"
#include "deckle/ops/generated/random.h"

namespace deckle {

Tensor dropout(const Tensor& self, double p, bool train, Generator* generator) {
  check(p >= 0 && p <= 1, "p is {} (expected 0 to 1)", p);
  if (!train || p == 0) return self;
  return std::get<0>(dropout_masked(self, p, generator));
}

}  // namespace deckle
