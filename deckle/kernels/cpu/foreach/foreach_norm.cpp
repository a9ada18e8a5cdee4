// foreach_norm: result[i] = the Euclidean norm of tensor i; foreach_dot: the sum of products of tensors i. float64.
//
// Runs of 16,384 elements are reduced in float64 and their results combined in ascending order: bit-equal for any number of
// threads. Norms sum squares as reduce/spread.cpp does, so that those of 1e200 neither overflow nor those of 1e-200 vanish.
// Products of dot are float64 ones of whatever dtype, unlike those of reduce/dot.cpp, which rounds them to the tensors' dtype, as
// its result is.

#include <algorithm>
#include <span>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/reduce/values.h"
#include "deckle/kernels/cpu/simd/convert.h"

namespace deckle::kernels::cpu {
namespace {

constexpr int64_t kRun = 1 << 14;

struct Run {
  size_t tensor;
  int64_t begin, count;
};

/// of(run) of all runs of the tensors, in parallel, then take(tensor, its value) in ascending order.
template <typename A, typename Of, typename Take>
void reduce_runs(std::span<const View> tensors, Of of, Take take) {
  std::vector<Run> runs;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t count = tensors[i].numel();
    for (int64_t begin = 0; begin < count; begin += kRun) runs.push_back({i, begin, std::min(kRun, count - begin)});
  }
  Scratch scratch;
  A* const partial = scratch.take<A>(std::ssize(runs));
  parallel_for(std::ssize(runs), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) partial[i] = of(runs[static_cast<size_t>(i)]);
  });
  for (size_t i = 0; i < runs.size(); ++i) take(runs[i].tensor, partial[i]);
}

reduce::Squares sum_squares(const reduce::RealFolds<reduce::Squares>& folds, const View& x, const Run& run) {
  if (x.dtype == DType::float64) return folds.f64.row(run.count, x.ptr<const double>() + run.begin);
  if (x.dtype == DType::float32) return folds.f32.row(run.count, x.ptr<const float>() + run.begin);
  Scratch scratch;
  auto* const widened = scratch.take<float>(run.count);
  simd::load_run(static_cast<const char*>(x.data) + run.begin * item_size(x.dtype), x.dtype, 1, run.count, widened);
  return folds.f32.row(run.count, widened);
}

template <typename T>
double sum_of_products(int64_t count, const T* a, const T* b) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace

void foreach_norm(const Context&, std::span<const View> self, const View& result) {
  const reduce::RealFolds<reduce::Squares> folds = reduce::norms();
  std::vector<reduce::Squares> totals(self.size());
  reduce_runs<reduce::Squares>(
      self, [&](const Run& run) { return sum_squares(folds, self[run.tensor], run); },
      [&](size_t tensor, const reduce::Squares& part) { totals[tensor] = folds.f64.combine(totals[tensor], part); });
  folds.f64.finish(std::ssize(self), totals.data(), 0, result.ptr<double>());
}

void foreach_dot(const Context&, std::span<const View> self, std::span<const View> other, const View& result) {
  for (size_t i = 0; i < self.size(); ++i) {
    const View &x = self[i], &y = other[i];
    check(x.ndim == y.ndim && std::equal(x.sizes, x.sizes + x.ndim, y.sizes) && x.dtype == y.dtype,
          "the tensors {} of the lists differ in shape or dtype (expected the same)", i);
  }
  std::vector<CompensatedSum> totals(self.size());
  const auto products = [&](const Run& run) {
    const View &x = self[run.tensor], &y = other[run.tensor];
    return visit_floating(x.dtype, [&]<typename T>(TypeTag<T>) {
      return sum_of_products(run.count, x.ptr<const T>() + run.begin, y.ptr<const T>() + run.begin);
    });
  };
  reduce_runs<double>(self, products, [&](size_t tensor, double part) { totals[tensor].add(part); });
  for (size_t i = 0; i < totals.size(); ++i) result.ptr<double>()[i] = totals[i].total();
}

}  // namespace deckle::kernels::cpu
