#include "deckle/nn/activations.h"

#include "deckle/base/check.h"
#include "deckle/base/error.h"

namespace deckle::nn {

Dropout::Dropout(FloatArg p, Generator* generator) : p_(p), generator_{generator} {
  call_as("nn::Dropout", [&] { check(p_ >= 0 && p_ <= 1, Argument{"p"}, "is {} (expected 0 to 1)", p_); });
}

}  // namespace deckle::nn
