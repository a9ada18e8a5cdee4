// How exact float32 is to be, where the bounds that tests set by themselves are too narrow.
#include "tests/ops/accuracy.h"

namespace deckle::suite {

// From the result, 1 - result^2: exact to a unit of 1, not of itself, where tanh saturates.
const bool soft_sign_given = allow("soft_sign", {.slope_floor = 1});

}  // namespace deckle::suite
