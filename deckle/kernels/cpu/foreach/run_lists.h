#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cpu::lists {

inline constexpr int kMaxLists = 4;
inline constexpr int64_t kRun = 1 << 14;

/// Elements of a tensor of a list, kRun or fewer.
struct Run {
  size_t tensor;
  int64_t begin, count;
};

std::vector<Run> runs_of(std::span<const View> tensors);

/// Works on `count` elements of every operand; the first ones are written as well as read.
template <typename T>
using RunStep = void (*)(int64_t count, T* const* operands, const double* numbers);

/// What steps.cpp exports.
template <typename T>
struct Steps {
  RunStep<T> adamw, sgd_momentum, sgd, add, mul, scale, addcmul, addcdiv, square_root, copy;
};

/// One list op: its step in both precisions, and how many operands it writes.
struct ListStep {
  RunStep<float> f32;
  RunStep<double> f64;
  int written;
};

/// lists[j][i] is operand j of tensor i: contiguous, of one shape and dtype for all j. Multi-threaded; the partition depends on
/// sizes alone.
void run_lists(const ListStep& step, std::span<const std::span<const View>> lists, const double* numbers);

}  // namespace deckle::kernels::cpu::lists
