#pragma once

#include <algorithm>
#include <cstdint>

#include "deckle/kernels/cpu/reduce/running_sums.h"
#include "deckle/kernels/cpu/reduce/values.h"

namespace deckle::kernels::cpu::reduce {

/// The running sums of up to kMost columns side by side, row by row: from zero on, as RunningSums; of integers modulo 2^64.
template <typename T, int64_t kMost>
class ColumnSums {
 public:
  explicit ColumnSums(int64_t count) : count_(count) {
    std::fill_n(sums_, count, 0.0);
    std::fill_n(errors_, count, 0.0);
  }
  /// The next row; y[c] is the sum of column c so far.
  void add(const T* x, T* y) { run_.columns(count_, x, sums_, errors_, y); }

 private:
  const int64_t count_;
  const RunningSums<T> run_ = running_sums().of<T>();
  double sums_[kMost], errors_[kMost];
};

template <int64_t kMost>
class ColumnSums<int64_t, kMost> {
 public:
  explicit ColumnSums(int64_t count) : count_(count) { std::fill_n(sums_, count, 0); }
  void add(const int64_t* x, int64_t* y) {
    for (int64_t c = 0; c < count_; ++c) y[c] = sums_[c] = add_modulo(sums_[c], x[c]);
  }

 private:
  const int64_t count_;
  int64_t sums_[kMost];
};

}  // namespace deckle::kernels::cpu::reduce
