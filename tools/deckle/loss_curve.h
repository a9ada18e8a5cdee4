#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deckle/io/checkpoint.h"

namespace deckle::cli {

/// The losses of a run in bits per byte, by step.
struct LossCurve {
  struct Point {
    int64_t step = 0;
    double bits = 0;
  };
  std::vector<Point> training;  // every step
  std::vector<Point> validation;

  void save(io::Checkpoint& checkpoint) const;
  static LossCurve load(const io::Checkpoint& checkpoint);
};

/// Points averaged to at most `count`, in order.
std::vector<LossCurve::Point> thin_out(const std::vector<LossCurve::Point>& points, size_t count);

/// A picture of the curve: training as a line, validation as dots.
std::string svg(const LossCurve& curve, const std::string& title);

/// The curve as lines of text, `width` columns wide.
std::string terminal_plot(const LossCurve& curve, int width = 72, int height = 14);

}  // namespace deckle::cli
