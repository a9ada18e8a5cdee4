// Cross entropy of rows of logits with smoothed integer targets, and its derivatives.            x, t: [rows, n]; targets: [rows]
//
//   q_j    = (1 - smoothing) [j = target] + smoothing / n
//   lse    = max x + log sum_j exp(x_j - max x)  loss = lse - sum_j q_j x_j, 0 where the target is ignored
//   dx_j   = (dloss m + dlse) p_j - dloss m q_j, p_j = exp(x_j - lse), m = 0 where ignored, else 1
//   tlse   = sum_j p_j t_j                       tloss = m (tlse - sum_j q_j t_j)
// lse is kept as maximum and logarithm, and everything is computed relative to the maximum, so logits of any magnitude are exact.
// The sum leaves out the maxima, each of which is 1: log1p of the rest keeps the loss accurate for a confident row; in its
// gradient p - 1 of the target is expm1, and in its tangent the tangents are relative to the target's. Bytes: read 4 (backward:
// and write 4) per element; about 12 FLOPs. Each row is read from memory once. Instances: float (float32, and the halves through
// a buffer of one row), double. Sums are double (simd/rows.h).
// Logarithms are taken in vectors, those of some rows at a time: [100, 100] takes 16 us in place of 22 (c8fab6eb and its parent,
// two threads of an Emerald Rapids, float32; bfloat16 24 in place of 29).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/loss/cross_entropy.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/loss/class_targets.h"
#include "deckle/kernels/cpu/simd/math_exp.h"
#include "deckle/kernels/cpu/simd/math_log.h"
#include "deckle/kernels/cpu/simd/row_buffer.h"
#include "deckle/kernels/cpu/simd/rows.h"
#include "deckle/kernels/cpu/simd/table.h"

#ifndef DECKLE_KERNELS_CPU_LOSS_CROSS_ENTROPY_ONCE
#define DECKLE_KERNELS_CPU_LOSS_CROSS_ENTROPY_ONCE
namespace deckle::kernels::cpu {

/// log sum_j exp x_j = shift + log_sum; shift is the largest x_j, or 0 if that is infinite.
struct LogSumExp {
  double shift, log_sum;
};

/// The arithmetic of one row.
template <typename T>
struct EntropyRows {
  /// Without the logarithm: log1p(log_sum) is it.
  LogSumExp (*sum_exp)(int64_t n, const T* x);
  void (*log1p)(int64_t n, double* values);  // in place
  double (*total)(int64_t n, const T* x, T shift);
  double (*expectation)(int64_t n, const T* x, LogSumExp lse, const T* t, T shift);
  void (*weighted_softmax)(int64_t n, const T* x, LogSumExp lse, double weight, double constant, T* y);
};

}  // namespace deckle::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

/// exp(x - lse), vector by vector.
template <typename T>
class Probability {
 public:
  explicit Probability(LogSumExp lse)
      : high_(hn::Set(d_, static_cast<T>(lse.shift))), low_(hn::Set(d_, static_cast<T>(lse.log_sum))) {}
  template <class V>
  HWY_INLINE V operator()(V x) const {
    return exp(d_, hn::Sub(hn::Sub(x, high_), low_));
  }

 private:
  hn::ScalableTag<T> d_;
  hn::Vec<hn::ScalableTag<T>> high_, low_;
};

template <typename T>
LogSumExp sum_exp(int64_t n, const T* x) {
  const hn::ScalableTag<T> d;
  const T max = max_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return part.load(x + i); });
  const T shift = std::isinf(max) ? T(0) : max;  // inf - inf is NaN
  const auto shifts = hn::Set(d, shift), zero = hn::Zero(d), one = hn::Set(d, T(1));
  const TwoSums sums = sum_run_two(d, n, [&](auto part, int64_t i, auto& rest, auto& maxima) HWY_ATTR {
    const auto value = part.load(x + i);
    const auto largest = hn::Eq(value, shifts);
    rest = hn::IfThenElse(largest, zero, exp(d, hn::Sub(value, shifts)));
    maxima = hn::IfThenElse(largest, one, zero);
  });
  return {static_cast<double>(shift), sums.first + (sums.second - 1)};
}

void log1p_run(int64_t n, double* values) {
  const hn::ScalableTag<double> d;
  map_run(d, n, [&](auto part, int64_t i) HWY_ATTR { part.store(log1p(d, part.load(values + i)), values + i); });
}

/// sum_j (x_j - shift)
template <typename T>
double total(int64_t n, const T* x, T shift) {
  const hn::ScalableTag<T> d;
  const auto shifts = hn::Set(d, shift);
  return sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return hn::Sub(part.load(x + i), shifts); });
}

/// sum_j exp(x_j - lse) (t_j - shift)
template <typename T>
double expectation(int64_t n, const T* x, LogSumExp lse, const T* t, T shift) {
  const hn::ScalableTag<T> d;
  const Probability<T> p(lse);
  const auto shifts = hn::Set(d, shift);
  return sum_run(d, n,
                 [&](auto part, int64_t i) HWY_ATTR { return hn::Mul(p(part.load(x + i)), hn::Sub(part.load(t + i), shifts)); });
}

/// y_j = weight exp(x_j - lse) - constant
template <typename T>
void weighted_softmax(int64_t n, const T* x, LogSumExp lse, double weight, double constant, T* y) {
  const hn::ScalableTag<T> d;
  const Probability<T> p(lse);
  const auto weights = hn::Set(d, static_cast<T>(weight)), constants = hn::Set(d, static_cast<T>(constant));
  map_run(d, n, [&](auto part, int64_t i) HWY_ATTR { part.store(hn::MulSub(weights, p(part.load(x + i)), constants), y + i); });
}

}  // namespace

RealTable<EntropyRows> entropy_table() {
  return {{&sum_exp<float>, &log1p_run, &total<float>, &expectation<float>, &weighted_softmax<float>},
          {&sum_exp<double>, &log1p_run, &total<double>, &expectation<double>, &weighted_softmax<double>}};
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(entropy_table);

namespace {

using simd::RowBuffer;
using simd::set_value;
using simd::value_at;

/// The targets of all rows, with label smoothing applied.
struct Targets {
  const View& view;
  int64_t classes;
  int64_t ignore_index;
  double smoothing;

  /// Throws for a class that does not exist.
  int64_t at(int64_t row) const {
    const int64_t target = view.dtype == DType::int64 ? view.ptr<int64_t>()[row] : view.ptr<int32_t>()[row];
    if (target != ignore_index) check_class(target, row, classes);
    return target;
  }
  bool counts(int64_t target) const { return target != ignore_index; }
  double uniform() const { return smoothing / static_cast<double>(classes); }
};

LogSumExp parts_of(const View& lse, int64_t row) { return {lse.ptr<double>()[2 * row], lse.ptr<double>()[2 * row + 1]}; }

constexpr int64_t kGrain = 16384;  // elements per parallel range
constexpr int64_t kTogether = 64;  // rows whose logarithms are taken in vectors

template <typename Body>
void for_row_ranges(const View& input, Body body) {
  const int64_t n = input.sizes[1];
  parallel_for(input.sizes[0], std::max<int64_t>(1, kGrain / std::max<int64_t>(n, 1)), [&](int64_t begin, int64_t end) {
    DECKLE_SIMD(entropy_table)().visit(input.dtype, [&](auto type, const auto& row_of) { body(type, row_of, begin, end, n); });
  });
}

}  // namespace

void cross_entropy_rows(const Context&, const View& input, const View& target, int64_t ignore_index, double label_smoothing,
                        const View& loss, const View& lse) {
  const Targets targets{target, input.sizes[1], ignore_index, label_smoothing};
  for_row_ranges(input, [&]<typename T>(TypeTag<T>, const EntropyRows<T>& row_of, int64_t begin, int64_t end, int64_t n) {
    const RowBuffer<T> rows(input, n);
    double shifts[kTogether], log_sums[kTogether], less[kTogether];
    for (int64_t first = begin; first < end; first += kTogether) {
      const int64_t count = std::min(kTogether, end - first);
      for (int64_t i = 0; i < count; ++i) {
        const T* const x = rows.read(first + i);
        const int64_t chosen = targets.at(first + i);
        const LogSumExp sum = row_of.sum_exp(n, x);
        shifts[i] = sum.shift;
        log_sums[i] = sum.log_sum;
        less[i] = 0;
        if (!targets.counts(chosen)) continue;
        less[i] = (1 - label_smoothing) * (static_cast<double>(x[chosen]) - sum.shift);
        if (label_smoothing > 0) less[i] += targets.uniform() * row_of.total(n, x, static_cast<T>(sum.shift));
      }
      row_of.log1p(count, log_sums);
      for (int64_t i = 0; i < count; ++i) {
        lse.ptr<double>()[2 * (first + i)] = shifts[i];
        lse.ptr<double>()[2 * (first + i) + 1] = log_sums[i];
        less[i] = targets.counts(targets.at(first + i)) ? log_sums[i] - less[i] : 0;
      }
      simd::store_run(less, count, static_cast<char*>(loss.data) + first * item_size(loss.dtype), loss.dtype, 1);
    }
  });
}

void cross_entropy_rows_backward(const Context&, const View& loss_gradient, const View& lse_gradient, const View& input,
                                 const View& target, const View& lse, int64_t ignore_index, double label_smoothing,
                                 const View& result) {
  const Targets targets{target, input.sizes[1], ignore_index, label_smoothing};
  for_row_ranges(input, [&]<typename T>(TypeTag<T>, const EntropyRows<T>& row_of, int64_t begin, int64_t end, int64_t n) {
    const RowBuffer<T> rows(input, n), gradients(result, n);
    for (int64_t row = begin; row < end; ++row) {
      const int64_t chosen = targets.at(row);
      const double from_loss = targets.counts(chosen) ? value_at(loss_gradient, row) : 0;
      T* const gradient = gradients.where(row);
      const double from_lse = value_at(lse_gradient, row);
      if (from_loss == 0 && from_lse == 0) {  // an ignored row may hold anything
        std::fill_n(gradient, n, T{0});
        gradients.finish(row);
        continue;
      }
      const T* const x = rows.read(row);
      const LogSumExp sum = parts_of(lse, row);
      const double at_target = targets.counts(chosen) ? static_cast<double>(x[chosen]) - sum.shift - sum.log_sum : 0;
      row_of.weighted_softmax(n, x, sum, from_loss + from_lse, from_loss * targets.uniform(), gradient);
      if (targets.counts(chosen)) {
        const double smoothed = label_smoothing - targets.uniform();
        gradient[chosen] = static_cast<T>(from_loss * (std::expm1(at_target) + smoothed) + from_lse * std::exp(at_target));
      }
      gradients.finish(row);
    }
  });
}

void cross_entropy_rows_jvp(const Context&, const View& tangent, const View& input, const View& target, const View& lse,
                            int64_t ignore_index, double label_smoothing, const View& loss, const View& lse_tangent) {
  const Targets targets{target, input.sizes[1], ignore_index, label_smoothing};
  for_row_ranges(input, [&]<typename T>(TypeTag<T>, const EntropyRows<T>& row_of, int64_t begin, int64_t end, int64_t n) {
    const RowBuffer<T> rows(input, n), tangents(tangent, n);
    for (int64_t row = begin; row < end; ++row) {
      const T* const t = tangents.read(row);
      const int64_t chosen = targets.at(row);
      const T shift = targets.counts(chosen) ? t[chosen] : T(0);
      const double relative = row_of.expectation(n, rows.read(row), parts_of(lse, row), t, shift);
      double value = 0;
      if (targets.counts(chosen)) {
        value = relative;
        if (label_smoothing > 0) value -= targets.uniform() * row_of.total(n, t, shift);
      }
      set_value(loss, row, value);
      set_value(lse_tangent, row, relative + static_cast<double>(shift));
    }
  });
}

}  // namespace deckle::kernels::cpu
#endif
