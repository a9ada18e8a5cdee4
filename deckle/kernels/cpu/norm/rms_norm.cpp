// Root mean square norm of rows, times a weight, and its gradients.                                     x, y, g: [rows, n]; w: [n]
//
//   forward    r = 1 / sqrt(mean(x²) + eps)    y = r x w
//   backward   u = g w    dx = r (u - r² x mean(u x))    dw = sum over rows of g r x
// Bytes: forward reads 4 and writes 4 per element, backward reads 8 and writes 4; a row stays in L1 between its passes, so memory
// is the limit. Instances: float (float32 and the halves, which pass a buffer of one row), double. Sums along a row: simd/rows.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/norm/rms_norm.cpp"
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

/// Writes y and returns r; w may be null.
template <typename T>
double forward_row(int64_t n, const T* x, const T* w, double eps, T* y) {
  const hn::ScalableTag<T> d;
  const double squares = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
    const auto value = part.load(x + i);
    return hn::Mul(value, value);
  });
  const double rstd = 1 / std::sqrt(squares / static_cast<double>(n) + eps);
  const auto r = hn::Set(d, static_cast<T>(rstd));
  map_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
    const auto h = hn::Mul(part.load(x + i), r);
    part.store(w ? hn::Mul(h, part.load(w + i)) : h, y + i);
  });
  return rstd;
}

/// Writes dx and adds to dw; w may be null.
template <typename T>
void backward_row(int64_t n, const T* g, const T* x, const T* w, double rstd, T* dx, T* dw) {
  const hn::ScalableTag<T> d;
  const double projection = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
    const auto u = w ? hn::Mul(part.load(g + i), part.load(w + i)) : part.load(g + i);
    return hn::Mul(u, part.load(x + i));
  });
  const auto r = hn::Set(d, static_cast<T>(rstd));
  const auto mean = hn::Set(d, static_cast<T>(rstd * rstd * projection / static_cast<double>(n)));
  map_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
    const auto gradient = part.load(g + i), value = part.load(x + i);
    const auto u = w ? hn::Mul(gradient, part.load(w + i)) : gradient;
    part.store(hn::MulAdd(hn::Mul(gradient, r), value, part.load(dw + i)), dw + i);
    part.store(hn::Mul(r, hn::NegMulAdd(mean, value, u)), dx + i);
  });
}

}  // namespace

double rms_forward_f32(int64_t n, const float* x, const float* w, double eps, float* y) { return forward_row(n, x, w, eps, y); }
double rms_forward_f64(int64_t n, const double* x, const double* w, double eps, double* y) { return forward_row(n, x, w, eps, y); }
void rms_backward_f32(int64_t n, const float* g, const float* x, const float* w, double rstd, float* dx, float* dw) {
  backward_row(n, g, x, w, rstd, dx, dw);
}
void rms_backward_f64(int64_t n, const double* g, const double* x, const double* w, double rstd, double* dx, double* dw) {
  backward_row(n, g, x, w, rstd, dx, dw);
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(rms_forward_f32);
HWY_EXPORT(rms_forward_f64);
HWY_EXPORT(rms_backward_f32);
HWY_EXPORT(rms_backward_f64);

namespace {

template <typename T>
void forward(double (*row_of)(int64_t, const T*, const T*, double, T*), const View& input, const View& weight, double eps, const View& out,
             const View& rstd) {
  const norm::RowRanges ranges(input);
  const std::vector<T> w = norm::weights<T>(weight, ranges.n);
  parallel_for(ranges.rows, ranges.grain, [&](int64_t begin, int64_t end) {
    const simd::RowBuffer<T> x(input, ranges.n), y(out, ranges.n);
    for (int64_t row = begin; row < end; ++row) {
      simd::set_value(rstd, row, row_of(ranges.n, x.read(row), w.empty() ? nullptr : w.data(), eps, y.where(row)));
      y.finish(row);
    }
  });
}

template <typename T>
void backward(void (*row_of)(int64_t, const T*, const T*, const T*, double, T*, T*), const View& gradient, const View& input, const View& weight,
              const View& rstd, const View& input_gradient, const View& weight_gradient) {
  const norm::RowRanges ranges(input);
  const std::vector<T> w = norm::weights<T>(weight, ranges.n);
  norm::ColumnSums<T, 1> sums(ranges);
  parallel_for(ranges.rows, ranges.grain, [&](int64_t begin, int64_t end) {
    const simd::RowBuffer<T> g(gradient, ranges.n), x(input, ranges.n), dx(input_gradient, ranges.n);
    for (int64_t row = begin; row < end; ++row) {
      row_of(ranges.n, g.read(row), x.read(row), w.empty() ? nullptr : w.data(), simd::value_at(rstd, row), dx.where(row), sums.at(begin, 0));
      dx.finish(row);
    }
  });
  sums.store(0, weight_gradient);
}

}  // namespace

void rms_norm_rows(const CpuContext&, const View& input, const View& weight, double eps, const View& out, const View& rstd) {
  if (input.dtype == DType::float64) forward<double>(DECKLE_SIMD(rms_forward_f64), input, weight, eps, out, rstd);
  else forward<float>(DECKLE_SIMD(rms_forward_f32), input, weight, eps, out, rstd);
}

void rms_norm_backward(const CpuContext&, const View& gradient, const View& input, const View& weight, const View& rstd, double,
                       const View& input_gradient, const View& weight_gradient) {
  if (input.dtype == DType::float64) backward<double>(DECKLE_SIMD(rms_backward_f64), gradient, input, weight, rstd, input_gradient, weight_gradient);
  else backward<float>(DECKLE_SIMD(rms_backward_f32), gradient, input, weight, rstd, input_gradient, weight_gradient);
}

}  // namespace deckle::kernels::cpu
#endif
