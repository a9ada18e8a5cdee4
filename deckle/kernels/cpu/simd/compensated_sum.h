#pragma once

#include <cmath>

namespace deckle::kernels::cpu {

/// A sum of doubles that carries its rounding error (Neumaier's form of Kahan's).
struct CompensatedSum {
  double sum = 0, error = 0;

  void add(double value) {
    const double next = sum + value;
    const double lost = std::abs(sum) >= std::abs(value) ? (sum - next) + value : (value - next) + sum;
    if (lost == lost) error += lost;  // an infinite sum loses NaN
    sum = next;
  }
  void add(const CompensatedSum& other) {
    add(other.sum);
    error += other.error;
  }
  double total() const { return sum + error; }
};

}  // namespace deckle::kernels::cpu
