#include "deckle/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace deckle::optim {

double WarmupCosine::at(double progress) const {
  constexpr double kFirst = 0.05;  // share of the peak at progress 0
  progress = std::clamp(progress, 0.0, 1.0);
  if (progress < warmup) return peak * (kFirst + (1 - kFirst) * progress / warmup);
  const double fall = warmup < 1 ? (progress - warmup) / (1 - warmup) : 1;
  return peak * (floor + (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * fall)));
}

}  // namespace deckle::optim
