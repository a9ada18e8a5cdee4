// softmax and log_softmax along one dim, and their derivatives.                                        x, y, g: [rows, n]
//
//   softmax                y = exp(x - max) / sum exp(x - max)      read 4, write 4 bytes per element (float), exp once
//   softmax_backward       y (g - sum g y)
//   log_softmax            y = x - max - log sum exp(x - max)
//   log_softmax_backward   g - exp(y) sum g
// A row is read from L1 two or three times and from memory once. Instances: float (float32 and the halves), double. Rows along
// any dim: columns side by side stay so (softmax_columns.cpp), by_rows gathers the other ones that are not contiguous. A row of
// only -inf gives NaN (0 / 0).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/softmax.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/by_rows.h"
#include "deckle/kernels/cpu/reduce/softmax.h"
#include "deckle/kernels/cpu/reduce/softmax_columns.h"
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
    // max and the logarithm are subtracted one by one: their rounded sum would lose the differences between large entries.
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

template <typename T, typename S, typename Body>
HWY_INLINE void map_columns(int64_t rows, int64_t n, reduce::Columns<S> y, Body body) {
  const hn::ScalableTag<T> d;
  for (int64_t r = 0; r < rows; ++r) {
    S* const to = y.row(r);
    map_run(d, n, [&](auto part, int64_t i) HWY_ATTR { part.store(body(part, r, i), to + i); });
  }
}

template <typename T>
using Given = reduce::Columns<const T>;

template <typename T>
void exponential_columns(int64_t rows, int64_t n, Given<T> x, const T* a, reduce::Columns<T> y) {
  map_columns<T>(rows, n, y, [&](auto part, int64_t r, int64_t i) HWY_ATTR {
    return exp(part.d, hn::Sub(part.load(x.row(r) + i), part.load(a + i)));
  });
}
template <typename T>
void scale_columns(int64_t rows, int64_t n, Given<T> x, const T* a, reduce::Columns<T> y) {
  map_columns<T>(rows, n, y,
                 [&](auto part, int64_t r, int64_t i) HWY_ATTR { return hn::Mul(part.load(x.row(r) + i), part.load(a + i)); });
}
template <typename T>
void shift_columns(int64_t rows, int64_t n, Given<T> x, const T* a, const T* b, reduce::Columns<T> y) {
  map_columns<T>(rows, n, y, [&](auto part, int64_t r, int64_t i) HWY_ATTR {
    return hn::Sub(hn::Sub(part.load(x.row(r) + i), part.load(a + i)), part.load(b + i));
  });
}
template <typename S, typename T>
void product_columns(int64_t rows, int64_t n, Given<S> grad, Given<S> y, reduce::Columns<T> products) {
  map_columns<T>(rows, n, products, [&](auto part, int64_t r, int64_t i) HWY_ATTR {
    return hn::Mul(part.load(grad.row(r) + i), part.load(y.row(r) + i));
  });
}
template <typename S, typename T>
void gradient_columns(int64_t rows, int64_t n, Given<S> grad, Given<S> y, const T* a, reduce::Columns<S> x_grad) {
  map_columns<T>(rows, n, x_grad, [&](auto part, int64_t r, int64_t i) HWY_ATTR {
    return hn::Mul(part.load(y.row(r) + i), hn::Sub(part.load(grad.row(r) + i), part.load(a + i)));
  });
}
template <typename S, typename T>
void log_gradient_columns(int64_t rows, int64_t n, Given<S> grad, Given<S> y, const T* a, reduce::Columns<S> x_grad) {
  map_columns<T>(rows, n, x_grad, [&](auto part, int64_t r, int64_t i) HWY_ATTR {
    return hn::NegMulAdd(exp(part.d, part.load(y.row(r) + i)), part.load(a + i), part.load(grad.row(r) + i));
  });
}

template <typename... S, typename T>
void set_gradients(std::tuple<reduce::SoftmaxGradients<S, T>...>& gradients) {
  gradients = {{&product_columns<S, T>, &gradient_columns<S, T>, &log_gradient_columns<S, T>}...};
}

template <typename T>
reduce::SoftmaxRows<T> functions() {
  reduce::SoftmaxRows<T> all = {&softmax_rows<T>,
                                &log_softmax_rows<T>,
                                &softmax_backward_rows<T>,
                                &log_softmax_backward_rows<T>,
                                {&exponential_columns<T>, &scale_columns<T>, &shift_columns<T>, {}}};
  set_gradients(all.columns.gradients);
  return all;
}

}  // namespace

RealTable<reduce::SoftmaxRows> softmax_table() { return {functions<float>(), functions<double>()}; }

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(softmax_table);

RealTable<reduce::SoftmaxRows> reduce::softmax_rows() { return DECKLE_SIMD(softmax_table)(); }

namespace {

template <typename T>
void forward(void (*function)(int64_t rows, int64_t n, const T* x, T* y), const View& self, int64_t dim, const View& result) {
  reduce::by_rows<T>(std::array{&self}, std::array{&result}, dim,
                     [&](int64_t, int64_t rows, int64_t n, const auto& x, const auto& y) { function(rows, n, x[0], y[0]); });
}

template <typename T>
void backward(void (*function)(int64_t rows, int64_t n, const T* grad, const T* y, T* x_grad), const View& grad,
              const View& result, int64_t dim, const View& self_grad) {
  reduce::by_rows<T>(
      std::array{&grad, &result}, std::array{&self_grad}, dim,
      [&](int64_t, int64_t rows, int64_t n, const auto& x, const auto& y) { function(rows, n, x[0], x[1], y[0]); });
}

}  // namespace

void softmax(const Context&, const View& self, int64_t dim, const View& result) {
  if (reduce::softmax_columns(self, dim, false, result)) return;
  reduce::softmax_rows().visit(self.dtype, [&](auto, const auto& rows) { forward(rows.softmax, self, dim, result); });
}

void log_softmax(const Context&, const View& self, int64_t dim, const View& result) {
  if (reduce::softmax_columns(self, dim, true, result)) return;
  reduce::softmax_rows().visit(self.dtype, [&](auto, const auto& rows) { forward(rows.log_softmax, self, dim, result); });
}

void softmax_backward(const Context&, const View& grad, const View& result, int64_t dim, const View& self_grad) {
  if (reduce::softmax_columns_backward(grad, result, dim, false, self_grad)) return;
  reduce::softmax_rows().visit(grad.dtype,
                               [&](auto, const auto& rows) { backward(rows.softmax_backward, grad, result, dim, self_grad); });
}

void log_softmax_backward(const Context&, const View& grad, const View& result, int64_t dim, const View& self_grad) {
  if (reduce::softmax_columns_backward(grad, result, dim, true, self_grad)) return;
  reduce::softmax_rows().visit(
      grad.dtype, [&](auto, const auto& rows) { backward(rows.log_softmax_backward, grad, result, dim, self_grad); });
}

}  // namespace deckle::kernels::cpu
#endif
