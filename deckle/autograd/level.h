#pragma once

#include <cstdint>

namespace deckle::autograd {

/// A forward-mode level: levels opened later are larger and are differentiated first.
using Level = int64_t;

}  // namespace deckle::autograd
