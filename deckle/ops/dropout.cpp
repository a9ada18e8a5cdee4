#include "deckle/ops/generated/random.h"

namespace deckle {

Tensor dropout(const Tensor& self, double p, bool train, Generator* generator) {
  if (!train || p == 0) return self;
  return std::get<0>(dropout_masked(self, p, generator));
}

}  // namespace deckle
