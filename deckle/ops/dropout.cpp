#include "deckle/base/check.h"
#include "deckle/ops/generated/random.h"

namespace deckle {

Tensor dropout(const Tensor& self, double p, bool train, Generator* generator) try {
  check(p >= 0 && p <= 1, Argument{"p"}, "is {} (expected 0 to 1)", p);
  if (!train || p == 0) return self;
  return std::get<0>(dropout_masked(self, p, generator));
} catch (...) {
  rethrow_from("dropout");
}

}  // namespace deckle
