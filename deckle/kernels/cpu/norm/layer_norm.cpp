// Layer norm of rows, times a weight, plus a bias, and its gradients.                                x, y, g: [rows, n]; w, b: [n]
//
//   forward    m = mean(x)    r = 1 / sqrt(mean((x - m)²) + eps)    h = r (x - m)    y = h w + b
//   backward   u = g w    dx = r (u - mean(u) - h mean(u h))    dw = sum over rows of g h    db = sum over rows of g
// Bytes: forward reads 4 and writes 4 per element, backward reads 8 and writes 4; a row stays in L1 between its passes, so memory
// is the limit. The variance is summed in a second pass over the row, not as a difference of large numbers. Instances: float
// (float32 and the halves, which pass a buffer of one row), double. Sums along a row: simd/rows.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/norm/layer_norm.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/norm/column_sums.h"
#include "deckle/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Writes y, mean and r; w and b may be null.
template <typename T>
void forward_row(int64_t n, const T* x, const T* w, const T* b, double eps, T* y, double* mean, double* rstd) {
  const hn::ScalableTag<T> d;
  *mean = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return part.load(x + i); }) / static_cast<double>(n);
  const auto m = hn::Set(d, static_cast<T>(*mean));
  const double squares = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
    const auto value = hn::Sub(part.load(x + i), m);
    return hn::Mul(value, value);
  });
  *rstd = 1 / std::sqrt(squares / static_cast<double>(n) + eps);
  const auto r = hn::Set(d, static_cast<T>(*rstd));
  map_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
    auto h = hn::Mul(hn::Sub(part.load(x + i), m), r);
    if (w) h = hn::Mul(h, part.load(w + i));
    if (b) h = hn::Add(h, part.load(b + i));
    part.store(h, y + i);
  });
}

/// Writes dx and adds to dw and db; w may be null.
template <typename T>
void backward_row(int64_t n, const T* g, const T* x, const T* w, double mean, double rstd, T* dx, T* dw, T* db) {
  const hn::ScalableTag<T> d;
  const auto m = hn::Set(d, static_cast<T>(mean)), r = hn::Set(d, static_cast<T>(rstd));
  const double average = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
    return w ? hn::Mul(part.load(g + i), part.load(w + i)) : part.load(g + i);
  }) / static_cast<double>(n);
  const double projection = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
    const auto u = w ? hn::Mul(part.load(g + i), part.load(w + i)) : part.load(g + i);
    return hn::Mul(u, hn::Sub(part.load(x + i), m));
  }) * rstd / static_cast<double>(n);
  const auto averages = hn::Set(d, static_cast<T>(average)), projections = hn::Set(d, static_cast<T>(projection));
  map_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
    const auto gradient = part.load(g + i), h = hn::Mul(hn::Sub(part.load(x + i), m), r);
    const auto u = w ? hn::Mul(gradient, part.load(w + i)) : gradient;
    part.store(hn::MulAdd(gradient, h, part.load(dw + i)), dw + i);
    part.store(hn::Add(gradient, part.load(db + i)), db + i);
    part.store(hn::Mul(r, hn::NegMulAdd(projections, h, hn::Sub(u, averages))), dx + i);
  });
}

}  // namespace

void layer_forward_f32(int64_t n, const float* x, const float* w, const float* b, double eps, float* y, double* mean, double* rstd) {
  forward_row(n, x, w, b, eps, y, mean, rstd);
}
void layer_forward_f64(int64_t n, const double* x, const double* w, const double* b, double eps, double* y, double* mean, double* rstd) {
  forward_row(n, x, w, b, eps, y, mean, rstd);
}
void layer_backward_f32(int64_t n, const float* g, const float* x, const float* w, double mean, double rstd, float* dx, float* dw, float* db) {
  backward_row(n, g, x, w, mean, rstd, dx, dw, db);
}
void layer_backward_f64(int64_t n, const double* g, const double* x, const double* w, double mean, double rstd, double* dx, double* dw,
                        double* db) {
  backward_row(n, g, x, w, mean, rstd, dx, dw, db);
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(layer_forward_f32);
HWY_EXPORT(layer_forward_f64);
HWY_EXPORT(layer_backward_f32);
HWY_EXPORT(layer_backward_f64);

namespace {

template <typename T>
const T* data_or_null(const std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

template <typename T>
void forward(void (*row_of)(int64_t, const T*, const T*, const T*, double, T*, double*, double*), const View& input, const View& weight,
             const View& bias, double eps, const View& out, const View& mean, const View& rstd) {
  const norm::RowRanges ranges(input);
  const std::vector<T> w = norm::weights<T>(weight, ranges.n), b = norm::weights<T>(bias, ranges.n);
  parallel_for(ranges.rows, ranges.grain, [&](int64_t begin, int64_t end) {
    const simd::RowBuffer<T> x(input, ranges.n), y(out, ranges.n);
    for (int64_t row = begin; row < end; ++row) {
      double m = 0, r = 0;
      row_of(ranges.n, x.read(row), data_or_null(w), data_or_null(b), eps, y.where(row), &m, &r);
      y.finish(row);
      simd::set_value(mean, row, m);
      simd::set_value(rstd, row, r);
    }
  });
}

template <typename T>
void backward(void (*row_of)(int64_t, const T*, const T*, const T*, double, double, T*, T*, T*), const View& gradient, const View& input,
              const View& weight, const View& mean, const View& rstd, const View& input_gradient, const View& weight_gradient,
              const View& bias_gradient) {
  const norm::RowRanges ranges(input);
  const std::vector<T> w = norm::weights<T>(weight, ranges.n);
  norm::ColumnSums<T, 2> sums(ranges);
  parallel_for(ranges.rows, ranges.grain, [&](int64_t begin, int64_t end) {
    const simd::RowBuffer<T> g(gradient, ranges.n), x(input, ranges.n), dx(input_gradient, ranges.n);
    for (int64_t row = begin; row < end; ++row) {
      row_of(ranges.n, g.read(row), x.read(row), data_or_null(w), simd::value_at(mean, row), simd::value_at(rstd, row), dx.where(row),
             sums.at(begin, 0), sums.at(begin, 1));
      dx.finish(row);
    }
  });
  sums.store(0, weight_gradient);
  sums.store(1, bias_gradient);
}

}  // namespace

void layer_norm_rows(const CpuContext&, const View& input, const View& weight, const View& bias, double eps, const View& out, const View& mean,
                     const View& rstd) {
  if (input.dtype == DType::float64) forward<double>(DECKLE_SIMD(layer_forward_f64), input, weight, bias, eps, out, mean, rstd);
  else forward<float>(DECKLE_SIMD(layer_forward_f32), input, weight, bias, eps, out, mean, rstd);
}

void layer_norm_backward(const CpuContext&, const View& gradient, const View& input, const View& weight, const View& mean, const View& rstd,
                         double, const View& input_gradient, const View& weight_gradient, const View& bias_gradient) {
  if (input.dtype == DType::float64) {
    backward<double>(DECKLE_SIMD(layer_backward_f64), gradient, input, weight, mean, rstd, input_gradient, weight_gradient, bias_gradient);
  } else {
    backward<float>(DECKLE_SIMD(layer_backward_f32), gradient, input, weight, mean, rstd, input_gradient, weight_gradient, bias_gradient);
  }
}

}  // namespace deckle::kernels::cpu
#endif
