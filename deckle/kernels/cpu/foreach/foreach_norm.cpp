// foreach_norm: result[i] = the Euclidean norm of tensor i; foreach_dot: the sum of products of tensors i; foreach_dot_over: that
// over divisor[i]. float64.
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
#include "deckle/kernels/cpu/foreach/run_lists.h"
#include "deckle/kernels/cpu/reduce/values.h"
#include "deckle/kernels/cpu/simd/convert.h"

namespace deckle::kernels::cpu {
namespace {

using lists::Run;

/// of(run) of all runs of the tensors, in parallel, then take(tensor, its value) in ascending order.
template <typename A, typename Of, typename Take>
void reduce_runs(std::span<const View> tensors, Of of, Take take) {
  const std::vector<Run> runs = lists::runs_of(tensors);
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

/// The sum of term(i) of i below count, in eight sums.
template <typename Term>
double sum_of(int64_t count, Term term) {
  double sums[8] = {};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int64_t lane = 0; lane < 8; ++lane) sums[lane] += term(i + lane);
  }
  for (; i < count; ++i) sums[0] += term(i);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// totals[i] = the sum of products of tensors i; those of doubles over divisors[i], if there are any.
std::vector<double> dot_products(std::span<const View> self, std::span<const View> other, const double* divisors) {
  for (size_t i = 0; i < self.size(); ++i) {
    const View &x = self[i], &y = other[i];
    check(x.ndim == y.ndim && std::equal(x.sizes, x.sizes + x.ndim, y.sizes) && x.dtype == y.dtype,
          "the tensors {} of the lists differ in shape or dtype (expected the same)", i);
  }
  std::vector<CompensatedSum> totals(self.size());
  const auto products = [&](const Run& run) {
    const View &x = self[run.tensor], &y = other[run.tensor];
    return visit_floating(x.dtype, [&]<typename T>(TypeTag<T>) {
      const T *const a = x.ptr<const T>() + run.begin, *const b = y.ptr<const T>() + run.begin;
      if (std::is_same_v<T, double> && divisors != nullptr) {
        const double divisor = divisors[run.tensor];
        return sum_of(run.count, [&](int64_t i) { return static_cast<double>(a[i]) / divisor * static_cast<double>(b[i]); });
      }
      return sum_of(run.count, [&](int64_t i) { return static_cast<double>(a[i]) * static_cast<double>(b[i]); });
    });
  };
  reduce_runs<double>(self, products, [&](size_t tensor, double part) { totals[tensor].add(part); });
  std::vector<double> results;
  for (const CompensatedSum& total : totals) results.push_back(total.total());
  return results;
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
  const std::vector<double> totals = dot_products(self, other, nullptr);
  std::copy(totals.begin(), totals.end(), result.ptr<double>());
}

void foreach_dot_over(const Context&, std::span<const View> self, std::span<const View> other, const View& divisor,
                      const View& result) {
  std::vector<double> divisors(self.size());
  simd::load_run(divisor.data, divisor.dtype, 1, std::ssize(divisors), divisors.data());
  const std::vector<double> totals = dot_products(self, other, divisors.data());
  for (size_t i = 0; i < totals.size(); ++i)
    result.ptr<double>()[i] = self[i].dtype == DType::float64 ? totals[i] : totals[i] / divisors[i];
}

}  // namespace deckle::kernels::cpu
