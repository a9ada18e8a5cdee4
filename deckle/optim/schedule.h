#pragma once

namespace deckle::optim {

/// A learning rate that rises linearly to `peak` and then falls along half a cosine. Loshchilov and Hutter, 2017.
struct WarmupCosine {
  double peak = 1e-3;
  double warmup = 0.02;  // share of the run
  double floor = 0;      // share of the peak that is left at the end

  /// The rate at `progress`, 0 to 1. It is never 0 at the start: step 0 has progress 0.
  double at(double progress) const;
};

}  // namespace deckle::optim
