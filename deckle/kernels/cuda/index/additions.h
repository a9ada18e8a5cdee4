#pragma once

#include <cstdint>

#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cuda::index {

/// Elements of a source to be added to places of a result. A kernel says which: keys[i] is the place, positions[i] the element of
/// the source. They are sorted by place, stably, and each place adds its own in that order, in double (integers in int64): no
/// atomics, the same bits in every run. On the current device.
class Additions {
 public:
  Additions(const Context& context, int64_t count, const View& result, const View& source);
  uint32_t* keys() const { return memory_.as<uint32_t>(); }
  uint32_t* positions() const { return keys() + count_; }
  void add(const Context& context) const;

 private:
  int64_t count_;
  View result_, source_;
  deckle::cuda::Block memory_;
};

}  // namespace deckle::kernels::cuda::index
