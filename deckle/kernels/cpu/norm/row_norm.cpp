// rms_norm and layer_norm over the last dim, and their derivatives.              x, g: [rows, n]; weight w, bias: [n]
//
//   rms:   xh = r x,            r = 1 / sqrt(mean x^2 + eps)            y = xh w
//   layer: xh = r (x - mean x), r = 1 / sqrt(mean (x - mean x)^2 + eps) y = xh w + bias
//   J v = r (v - [mean v] - xh mean(v xh)), the Jacobian of xh, which is symmetric; [.]: layer only
//   backward: dx = J (g w), dw = sum over rows of g xh, dbias = sum over rows of g
// Bytes: forward reads 4 and writes 4 per element (float), backward reads 8 and writes 4; about 10 and 20 FLOPs. A row is read
// three times from L1, once from memory. Instances: float (float32, and the halves through a buffer), double. Parameter
// gradients: 32 rows at a time in T, then in double, one partial sum per 64 or more rows, combined in order.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/norm/row_norm.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/simd/row_buffer.h"
#include "deckle/kernels/cpu/simd/rows.h"
#include "deckle/kernels/cpu/simd/scale_exponent.h"
#include "deckle/kernels/cpu/simd/table.h"

#ifndef DECKLE_KERNELS_CPU_NORM_ROW_NORM_ONCE
#define DECKLE_KERNELS_CPU_NORM_ROW_NORM_ONCE
namespace deckle::kernels::cpu {

/// The arithmetic of one row. weight and bias may be null (1 and 0); dw and dbias are added to, and may be null.
template <typename T>
struct RowNorm {
  void (*forward)(int64_t n, const T* x, const T* weight, const T* bias, double eps, T* y);
  void (*backward)(int64_t n, const T* g, const T* x, const T* weight, double eps, T* dx, T* dw, T* dbias);
};
struct NormTable {
  RealTable<RowNorm> rms, layer;
};

}  // namespace deckle::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

/// A mean rounded to T, and what that left over.
struct Mean {
  double rounded = 0, rest = 0;
};

/// Of numbers whose differences to `start` have the mean `difference`.
template <typename T>
Mean mean_from(double start, double difference) {
  const double rounded = static_cast<double>(static_cast<T>(start + difference));
  return {rounded, difference - (rounded - start)};
}

struct Statistics {
  Mean mean;
  double scale;     // xh = scale (unit x - mean)
  double unit = 1;  // a power of two
};

/// Whether squares in T lost digits, or all of themselves, and count beside eps.
template <typename T>
bool underflows(double mean_square, double eps) {
  return mean_square + eps < std::numeric_limits<T>::min() / std::numeric_limits<T>::epsilon();
}

/// The definition, element by element in double, scaled so that the largest element is between 2 and 4, as far as T has the
/// scale.
template <bool kCentred, typename T>
Statistics wide_statistics(int64_t n, const T* x, double eps) {
  double largest = 0, mean = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, std::abs(static_cast<double>(x[i])));
  const double unit = std::ldexp(1.0, scale_exponent<T>(largest));  // 0 where no element is but NaN
  for (int64_t i = 0; kCentred && i < n; ++i) mean += unit * static_cast<double>(x[i]);
  mean /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) {
    const double centred = unit * static_cast<double>(x[i]) - mean;
    squares += centred * centred;
  }
  return {mean_from<T>(0, mean), 1 / std::sqrt(squares / static_cast<double>(n) + unit * eps * unit), unit};
}

/// `squares` is the sum of (x - mean.rounded)^2.
Statistics of_sums(int64_t n, const Mean& mean, double squares, double eps) {
  // The square of the mean's rounding error is part of the sum and is removed.
  const double variance = squares / static_cast<double>(n) - mean.rest * mean.rest;
  return {mean, 1 / std::sqrt(std::max(variance, 0.0) + eps)};  // below 0: a constant row
}

template <bool kCentred, typename T>
Statistics statistics(int64_t n, const T* x, double eps) {
  const hn::ScalableTag<T> d;
  Mean mean;
  if constexpr (kCentred) {
    // From the first element on: where the mean is large beside the spread, the sum's rounding is of the spread's size.
    const auto start = hn::Set(d, x[0]);
    const double rest = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return hn::Sub(part.load(x + i), start); });
    mean = mean_from<T>(static_cast<double>(x[0]), rest / static_cast<double>(n));
  }
  const auto means = hn::Set(d, static_cast<T>(mean.rounded));
  const double squares = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
    const auto centred = kCentred ? hn::Sub(part.load(x + i), means) : part.load(x + i);
    return hn::Mul(centred, centred);
  });
  // From 1e19 on squares overflow in float, below 1e-19 they underflow.
  if (!std::isfinite(squares) || underflows<T>(squares / static_cast<double>(n), eps))
    return wide_statistics<kCentred>(n, x, eps);
  return of_sums(n, mean, squares, eps);
}

template <bool kCentred, typename T>
void forward(int64_t n, const T* x, const T* weight, const T* bias, double eps, T* y) {
  const hn::ScalableTag<T> d;
  const Statistics s = statistics<kCentred>(n, x, eps);
  const auto means = hn::Set(d, static_cast<T>(s.mean.rounded)), scales = hn::Set(d, static_cast<T>(s.scale)),
             units = hn::Set(d, static_cast<T>(s.unit)), missed = hn::Set(d, static_cast<T>(s.mean.rest * s.scale));
  const auto normal = [&](auto value) HWY_ATTR {  // exact before the mean is taken off
    if constexpr (kCentred)
      return hn::MulSub(hn::MulSub(value, units, means), scales, missed);
    else
      return hn::Mul(hn::Mul(value, units), scales);
  };
  map_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
    auto value = normal(part.load(x + i));
    if (weight) value = hn::Mul(value, part.load(weight + i));
    if (bias) value = hn::Add(value, part.load(bias + i));
    part.store(value, y + i);
  });
}

template <bool kCentred, bool kWeighted, typename T>
void backward_row(int64_t n, const T* g, const T* x, const T* weight, double eps, T* dx, T* dw, T* dbias) {
  const hn::ScalableTag<T> d;
  const double count = static_cast<double>(n);
  const auto weighted = [&](auto part, int64_t i) HWY_ATTR {
    const auto value = part.load(g + i);
    if constexpr (kWeighted)
      return hn::Mul(value, part.load(weight + i));
    else
      return value;
  };
  // Two passes: sums of x - x[0] and of g w, then of (x - mean)^2 and of g w (x - mean).
  TwoSums first{0, 0};
  Mean mean;
  if constexpr (kCentred) {
    const auto start = hn::Set(d, x[0]);
    first = sum_run_two(d, n, [&](auto part, int64_t i, auto& value, auto& plain) HWY_ATTR {
      value = hn::Sub(part.load(x + i), start);
      plain = weighted(part, i);
    });
    mean = mean_from<T>(static_cast<double>(x[0]), first.first / count);
  }
  const auto centre = hn::Set(d, static_cast<T>(mean.rounded));
  const TwoSums second = sum_run_two(d, n, [&](auto part, int64_t i, auto& square, auto& along) HWY_ATTR {
    const auto centred = kCentred ? hn::Sub(part.load(x + i), centre) : part.load(x + i);
    square = hn::Mul(centred, centred);
    along = hn::Mul(weighted(part, i), centred);
  });
  const bool in_wide = !std::isfinite(first.second) || !std::isfinite(second.first) || !std::isfinite(second.second) ||
                       underflows<T>(second.first / count, eps);
  const Statistics s = in_wide ? statistics<kCentred>(n, x, eps) : of_sums(n, mean, second.first, eps);
  const auto means = hn::Set(d, static_cast<T>(s.mean.rounded)), scales = hn::Set(d, static_cast<T>(s.scale)),
             units = hn::Set(d, static_cast<T>(s.unit)), missed = hn::Set(d, static_cast<T>(s.mean.rest * s.scale));
  const auto normal = [&](auto part, int64_t i) HWY_ATTR {
    const auto value = part.load(x + i);
    if constexpr (kCentred)
      return hn::MulSub(hn::MulSub(value, units, means), scales, missed);
    else
      return hn::Mul(hn::Mul(value, units), scales);
  };
  TwoSums sums{second.second * s.scale - first.second * s.mean.rest * s.scale, first.second};  // of g w xh and of g w
  if (in_wide) {
    sums = {0, 0};
    for (int64_t i = 0; i < n; ++i) {
      const double along = static_cast<double>(g[i]) * (kWeighted ? static_cast<double>(weight[i]) : 1),
                   centred = s.unit * static_cast<double>(x[i]) - s.mean.rounded - s.mean.rest;
      sums.first += along * (centred * s.scale);
      sums.second += along;
    }
  }
  const auto alongs = hn::Set(d, static_cast<T>(sums.first / count)), offsets = hn::Set(d, static_cast<T>(sums.second / count));
  map_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
    const auto xh = normal(part, i);
    auto rest = hn::NegMulAdd(xh, alongs, weighted(part, i));
    if constexpr (kCentred) rest = hn::Sub(rest, offsets);
    const auto gradient = part.load(g + i);
    part.store(hn::Mul(hn::Mul(rest, scales), units), dx + i);
    if (dw) part.store(hn::MulAdd(gradient, xh, part.load(dw + i)), dw + i);
    if (dbias) part.store(hn::Add(gradient, part.load(dbias + i)), dbias + i);
  });
}

template <bool kCentred, typename T>
void backward(int64_t n, const T* g, const T* x, const T* weight, double eps, T* dx, T* dw, T* dbias) {
  if (weight)
    backward_row<kCentred, true>(n, g, x, weight, eps, dx, dw, dbias);
  else
    backward_row<kCentred, false>(n, g, x, weight, eps, dx, dw, dbias);
}

}  // namespace

NormTable norm_table() {
  return {{{&forward<false, float>, &backward<false, float>}, {&forward<false, double>, &backward<false, double>}},
          {{&forward<true, float>, &backward<true, float>}, {&forward<true, double>, &backward<true, double>}}};
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(norm_table);

namespace {

constexpr int64_t kGrain = 16384;   // elements per parallel range
constexpr int64_t kRowsInT = 32;    // added in T before a parameter's gradient goes to double
constexpr int64_t kMaxParts = 256;  // partial sums of a parameter's gradient

/// A parameter [n], or null if it was not given.
template <typename T>
struct Parameter {
  Scratch scratch;
  T* values = nullptr;
  Parameter(const View& view, int64_t n) {
    if (!view.defined) return;
    values = scratch.take<T>(n);
    simd::load_run(view.data, view.dtype, 1, n, values);
  }
};

int64_t row_length(const View& view) { return view.ndim > 0 ? view.sizes[view.ndim - 1] : 1; }

template <typename T>
void run_forward(const RowNorm<T>& norm, const View& self, const View& weight, const View& bias, double eps, const View& result) {
  const int64_t n = row_length(self), rows = n > 0 ? self.numel() / n : 0;
  const Parameter<T> w(weight, n), b(bias, n);
  parallel_for(rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(n, 1)), [&](int64_t begin, int64_t end) {
    const simd::RowBuffer<T> x(self, n), y(result, n);
    for (int64_t row = begin; row < end; ++row) {
      norm.forward(n, x.read(row), w.values, b.values, eps, y.where(row));
      y.finish(row);
    }
  });
}

/// Sums of T arrays over rows: a few rows in T, then in double.
template <typename T>
struct ParameterGradient {
  Scratch scratch;
  T* few = nullptr;
  double* sums;  // [n], zeroed here; null if not wanted
  int64_t n;
  ParameterGradient(double* sums, int64_t n) : sums(sums), n(n) {
    if (sums == nullptr) return;
    few = scratch.take<T>(n);
    std::fill_n(few, n, T(0));
    std::fill_n(sums, n, 0.0);
  }
  void flush() {
    if (sums == nullptr) return;
    for (int64_t i = 0; i < n; ++i) sums[i] += static_cast<double>(few[i]);
    std::fill_n(few, n, T(0));
  }
};

/// weight_grad and bias_grad may be null.
template <typename T>
void run_backward(const RowNorm<T>& norm, const View& grad, const View& self, const View& weight, double eps,
                  const View& self_grad, const View* weight_grad, const View* bias_grad) {
  const int64_t n = row_length(self), rows = n > 0 ? self.numel() / n : 0;
  const int64_t rows_per_part = std::max({(rows + kMaxParts - 1) / kMaxParts, kGrain / std::max<int64_t>(n, 1), 2 * kRowsInT});
  const int64_t parts = (rows + rows_per_part - 1) / rows_per_part;
  Scratch scratch;
  double* const weight_parts = weight_grad ? scratch.take<double>(parts * n) : nullptr;
  double* const bias_parts = bias_grad ? scratch.take<double>(parts * n) : nullptr;
  double* const sums = scratch.take<double>(n);
  const Parameter<T> w(weight, n);
  parallel_for(rows, rows_per_part, [&](int64_t begin, int64_t end) {
    const int64_t part = begin / rows_per_part;
    const simd::RowBuffer<T> g(grad, n), x(self, n), dx(self_grad, n);
    ParameterGradient<T> dw(weight_grad ? weight_parts + part * n : nullptr, n),
        db(bias_grad ? bias_parts + part * n : nullptr, n);
    for (int64_t row = begin; row < end; ++row) {
      norm.backward(n, g.read(row), x.read(row), w.values, eps, dx.where(row), dw.few, db.few);
      dx.finish(row);
      if ((row - begin) % kRowsInT == kRowsInT - 1 || row + 1 == end) dw.flush(), db.flush();
    }
  });
  const auto combine = [&](const double* partial, const View* result) {
    if (result == nullptr) return;
    std::fill_n(sums, n, 0.0);
    for (int64_t part = 0; part < parts; ++part) {
      for (int64_t i = 0; i < n; ++i) sums[i] += partial[part * n + i];
    }
    simd::store_run(sums, n, result->data, result->dtype, 1);
  };
  combine(weight_parts, weight_grad);
  combine(bias_parts, bias_grad);
}

}  // namespace

void rms_norm(const Context&, const View& self, const View& weight, double eps, const View& result) {
  DECKLE_SIMD(norm_table)
  ().rms.visit(self.dtype, [&](auto, const auto& norm) { run_forward(norm, self, weight, View{}, eps, result); });
}

void rms_norm_backward(const Context&, const View& gradient, const View& self, const View& weight, double eps,
                       const View& self_gradient, const View& weight_gradient) {
  DECKLE_SIMD(norm_table)
  ().rms.visit(self.dtype, [&](auto, const auto& norm) {
    run_backward(norm, gradient, self, weight, eps, self_gradient, &weight_gradient, nullptr);
  });
}

void rms_norm_direction(const Context&, const View& direction, const View& self, double eps, const View& result) {
  DECKLE_SIMD(norm_table)
  ().rms.visit(self.dtype,
               [&](auto, const auto& norm) { run_backward(norm, direction, self, View{}, eps, result, nullptr, nullptr); });
}

void layer_norm(const Context&, const View& self, const View& weight, const View& bias, double eps, const View& result) {
  DECKLE_SIMD(norm_table)
  ().layer.visit(self.dtype, [&](auto, const auto& norm) { run_forward(norm, self, weight, bias, eps, result); });
}

void layer_norm_backward(const Context&, const View& gradient, const View& self, const View& weight, double eps,
                         const View& self_gradient, const View& weight_gradient, const View& bias_gradient) {
  DECKLE_SIMD(norm_table)
  ().layer.visit(self.dtype, [&](auto, const auto& norm) {
    run_backward(norm, gradient, self, weight, eps, self_gradient, &weight_gradient, &bias_gradient);
  });
}

void layer_norm_direction(const Context&, const View& direction, const View& self, double eps, const View& result) {
  DECKLE_SIMD(norm_table)
  ().layer.visit(self.dtype,
                 [&](auto, const auto& norm) { run_backward(norm, direction, self, View{}, eps, result, nullptr, nullptr); });
}

}  // namespace deckle::kernels::cpu
#endif
