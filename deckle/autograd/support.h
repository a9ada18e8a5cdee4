#pragma once

// Everything that generated wrappers use of autograd.
#include "deckle/autograd/call_check.h"
#include "deckle/autograd/forward_mode.h"
#include "deckle/autograd/history.h"
#include "deckle/autograd/saved_tensor.h"

namespace deckle::autograd {

/// True when a wrapper has more to do than to call the raw op: history is wanted, or an input may carry a tangent.
template <typename... Inputs>
bool active(const Inputs&... inputs) {
  return records(inputs...) || !tangent_levels(inputs...).empty();
}

}  // namespace deckle::autograd
