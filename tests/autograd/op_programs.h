#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "deckle/core/tensor.h"

namespace deckle::op_programs {

/// Choices that a seed decides.
class Draw {
 public:
  explicit Draw(uint64_t seed) : engine_(seed) {}

  size_t choose(size_t count) { return std::uniform_int_distribution<size_t>(0, count - 1)(engine_); }
  bool flip() { return choose(2) == 0; }
  int64_t index(int64_t count) { return static_cast<int64_t>(choose(static_cast<size_t>(count))); }
  double number() { return std::uniform_real_distribution<double>(-1, 1)(engine_); }
  /// Numbers from -1 to 1.
  Tensor constant(Ints sizes);

 private:
  std::mt19937_64 engine_;
};

/// A random program, the same steps at every call: from x [12] to one number, by ops, views, in-place writes, checkpoints,
/// functions of the user's, hooks and inner derivatives. A `narrow` one turns some results to float32.
class Program {
 public:
  explicit Program(uint64_t seed, bool narrow = false) : seed_(seed), narrow_(narrow) {}

  Tensor operator()(const Tensor& x);

 private:
  const Tensor& any() { return pool_[draw_.choose(pool_.size())]; }
  void push(const Tensor& t);
  void add_step();
  void write();
  Tensor special();

  uint64_t seed_;
  bool narrow_;
  Draw draw_{0};
  std::vector<Tensor> pool_;
};

}  // namespace deckle::op_programs
