// softmax and log_softmax along one dim, and their derivatives.                                        x, y, g: [rows, n]
//
//   softmax                y = exp(x - max) / sum exp(x - max)      read 4, write 4 bytes per element (float), exp once
//   softmax_backward       y (g - sum g y)
//   log_softmax            y = x - max - log sum exp(x - max)
//   log_softmax_backward   g - exp(y) sum g
// A row passes L1 two or three times and memory once. Instances: float (float32 and the halves), double. Rows along any dim:
// by_rows gathers those that are not contiguous. A row of -inf alone gives NaN, as 0 / 0 must.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/softmax.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/by_rows.h"
#include "deckle/kernels/cpu/simd/math_exp.h"
#include "deckle/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

template <typename T>
void softmax_rows(int64_t rows, int64_t n, const T* x, T* y) {
  const hn::ScalableTag<T> d;
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const auto max = hn::Set(d, max_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return part.load(x + i); }));
    const double sum = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
      const auto e = exp(d, hn::Sub(part.load(x + i), max));
      part.store(e, y + i);
      return e;
    });
    const auto scale = hn::Set(d, static_cast<T>(1 / sum));
    map_run(d, n, [&](auto part, int64_t i) HWY_ATTR { part.store(hn::Mul(part.load(y + i), scale), y + i); });
  }
}

template <typename T>
void softmax_backward_rows(int64_t rows, int64_t n, const T* grad, const T* y, T* x_grad) {
  const hn::ScalableTag<T> d;
  for (int64_t r = 0; r < rows; ++r, grad += n, y += n, x_grad += n) {
    const double sum =
        sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return hn::Mul(part.load(grad + i), part.load(y + i)); });
    const auto mean = hn::Set(d, static_cast<T>(sum));
    map_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
      part.store(hn::Mul(part.load(y + i), hn::Sub(part.load(grad + i), mean)), x_grad + i);
    });
  }
}

template <typename T>
void log_softmax_rows(int64_t rows, int64_t n, const T* x, T* y) {
  const hn::ScalableTag<T> d;
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    const T max = max_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return part.load(x + i); });
    const auto maxima = hn::Set(d, max);
    const double sum = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return exp(d, hn::Sub(part.load(x + i), maxima)); });
    // max and the logarithm apart: their sum would round away what distinguishes large entries.
    const auto log_sum = hn::Set(d, static_cast<T>(std::log(sum)));
    map_run(d, n, [&](auto part, int64_t i) HWY_ATTR { part.store(hn::Sub(hn::Sub(part.load(x + i), maxima), log_sum), y + i); });
  }
}

template <typename T>
void log_softmax_backward_rows(int64_t rows, int64_t n, const T* grad, const T* y, T* x_grad) {
  const hn::ScalableTag<T> d;
  for (int64_t r = 0; r < rows; ++r, grad += n, y += n, x_grad += n) {
    const double sum = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return part.load(grad + i); });
    const auto sums = hn::Set(d, static_cast<T>(sum));
    map_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
      part.store(hn::NegMulAdd(exp(d, part.load(y + i)), sums, part.load(grad + i)), x_grad + i);
    });
  }
}

}  // namespace

void softmax_f32(int64_t rows, int64_t n, const float* x, float* y) { softmax_rows(rows, n, x, y); }
void softmax_f64(int64_t rows, int64_t n, const double* x, double* y) { softmax_rows(rows, n, x, y); }
void log_softmax_f32(int64_t rows, int64_t n, const float* x, float* y) { log_softmax_rows(rows, n, x, y); }
void log_softmax_f64(int64_t rows, int64_t n, const double* x, double* y) { log_softmax_rows(rows, n, x, y); }
void softmax_backward_f32(int64_t rows, int64_t n, const float* g, const float* y, float* x) {
  softmax_backward_rows(rows, n, g, y, x);
}
void softmax_backward_f64(int64_t rows, int64_t n, const double* g, const double* y, double* x) {
  softmax_backward_rows(rows, n, g, y, x);
}
void log_softmax_backward_f32(int64_t rows, int64_t n, const float* g, const float* y, float* x) {
  log_softmax_backward_rows(rows, n, g, y, x);
}
void log_softmax_backward_f64(int64_t rows, int64_t n, const double* g, const double* y, double* x) {
  log_softmax_backward_rows(rows, n, g, y, x);
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(softmax_f32);
HWY_EXPORT(softmax_f64);
HWY_EXPORT(log_softmax_f32);
HWY_EXPORT(log_softmax_f64);
HWY_EXPORT(softmax_backward_f32);
HWY_EXPORT(softmax_backward_f64);
HWY_EXPORT(log_softmax_backward_f32);
HWY_EXPORT(log_softmax_backward_f64);

namespace {

template <typename T>
using Forward = void (*)(int64_t rows, int64_t n, const T* x, T* y);
template <typename T>
using Backward = void (*)(int64_t rows, int64_t n, const T* grad, const T* y, T* x_grad);

template <typename T>
void forward(Forward<T> function, const View& self, int64_t dim, const View& result) {
  reduce::by_rows<T>(std::array{&self}, std::array{&result}, dim,
                     [&](int64_t, int64_t rows, int64_t n, const auto& x, const auto& y) { function(rows, n, x[0], y[0]); });
}

template <typename T>
void backward(Backward<T> function, const View& grad, const View& result, int64_t dim, const View& self_grad) {
  reduce::by_rows<T>(
      std::array{&grad, &result}, std::array{&self_grad}, dim,
      [&](int64_t, int64_t rows, int64_t n, const auto& x, const auto& y) { function(rows, n, x[0], x[1], y[0]); });
}

}  // namespace

void softmax(const CpuContext&, const View& self, int64_t dim, const View& result) {
  if (self.dtype == DType::float64)
    forward<double>(DECKLE_SIMD(softmax_f64), self, dim, result);
  else
    forward<float>(DECKLE_SIMD(softmax_f32), self, dim, result);
}

void log_softmax(const CpuContext&, const View& self, int64_t dim, const View& result) {
  if (self.dtype == DType::float64)
    forward<double>(DECKLE_SIMD(log_softmax_f64), self, dim, result);
  else
    forward<float>(DECKLE_SIMD(log_softmax_f32), self, dim, result);
}

void softmax_backward(const CpuContext&, const View& grad, const View& result, int64_t dim, const View& self_grad) {
  if (grad.dtype == DType::float64)
    backward<double>(DECKLE_SIMD(softmax_backward_f64), grad, result, dim, self_grad);
  else
    backward<float>(DECKLE_SIMD(softmax_backward_f32), grad, result, dim, self_grad);
}

void log_softmax_backward(const CpuContext&, const View& grad, const View& result, int64_t dim, const View& self_grad) {
  if (grad.dtype == DType::float64)
    backward<double>(DECKLE_SIMD(log_softmax_backward_f64), grad, result, dim, self_grad);
  else
    backward<float>(DECKLE_SIMD(log_softmax_backward_f32), grad, result, dim, self_grad);
}

}  // namespace deckle::kernels::cpu
#endif
