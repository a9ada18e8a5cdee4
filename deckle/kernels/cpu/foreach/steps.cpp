// The steps of the list ops on one run of elements.                            Memory-bound: every operand is read once.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/foreach/steps.cpp"
#include "deckle/kernels/cpu/simd/targets.h"
// After targets.h.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::lists::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Calls step(tag, i) for whole vectors and then, one lane at a time, for the rest.
template <typename T, typename Step>
HWY_INLINE void over(int64_t count, Step&& step) {
  const hn::ScalableTag<T> whole;
  const hn::CappedTag<T, 1> single;
  const auto lanes = static_cast<int64_t>(hn::Lanes(whole));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) step(whole, i);
  for (; i < count; ++i) step(single, i);
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> number(D d, double value) {
  return hn::Set(d, static_cast<T>(value));
}

// operands: parameter, average, square, gradient. numbers: step size lr / (1 - beta1^t), beta1, beta2, epsilon, decay 1 - lr *
// weight decay, 1 / sqrt(1 - beta2^t).
template <typename T>
void adamw(int64_t count, T* const* operands, const double* numbers) {
  T* const parameters = operands[0];
  T* const averages = operands[1];
  T* const squares = operands[2];
  const T* const gradients = operands[3];
  over<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto gradient = hn::LoadU(d, gradients + i);
    const auto average =
        hn::MulAdd(number(d, numbers[1]), hn::LoadU(d, averages + i), hn::Mul(number(d, 1 - numbers[1]), gradient));
    const auto square = hn::MulAdd(number(d, numbers[2]), hn::LoadU(d, squares + i),
                                   hn::Mul(number(d, 1 - numbers[2]), hn::Mul(gradient, gradient)));
    const auto scale = hn::MulAdd(hn::Sqrt(square), number(d, numbers[5]), number(d, numbers[3]));
    const auto decayed = hn::Mul(hn::LoadU(d, parameters + i), number(d, numbers[4]));
    hn::StoreU(average, d, averages + i);
    hn::StoreU(square, d, squares + i);
    hn::StoreU(hn::NegMulAdd(number(d, numbers[0]), hn::Div(average, scale), decayed), d, parameters + i);
  });
}

// operands: parameter, velocity, gradient. numbers: lr, momentum, weight decay, 1 - dampening, nesterov (0 or 1).
template <typename T>
void sgd_momentum(int64_t count, T* const* operands, const double* numbers) {
  T* const parameters = operands[0];
  T* const velocities = operands[1];
  const T* const gradients = operands[2];
  const bool nesterov = numbers[4] != 0;
  over<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto parameter = hn::LoadU(d, parameters + i);
    const auto gradient = hn::MulAdd(number(d, numbers[2]), parameter, hn::LoadU(d, gradients + i));
    const auto velocity =
        hn::MulAdd(number(d, numbers[1]), hn::LoadU(d, velocities + i), hn::Mul(number(d, numbers[3]), gradient));
    const auto step = nesterov ? hn::MulAdd(number(d, numbers[1]), velocity, gradient) : velocity;
    hn::StoreU(velocity, d, velocities + i);
    hn::StoreU(hn::NegMulAdd(number(d, numbers[0]), step, parameter), d, parameters + i);
  });
}

// operands: parameter, gradient. numbers: lr, weight decay.
template <typename T>
void sgd(int64_t count, T* const* operands, const double* numbers) {
  T* const parameters = operands[0];
  const T* const gradients = operands[1];
  over<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto parameter = hn::LoadU(d, parameters + i);
    const auto gradient = hn::MulAdd(number(d, numbers[1]), parameter, hn::LoadU(d, gradients + i));
    hn::StoreU(hn::NegMulAdd(number(d, numbers[0]), gradient, parameter), d, parameters + i);
  });
}

template <typename T>
void add(int64_t count, T* const* operands, const double* numbers) {
  over<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::MulAdd(number(d, numbers[0]), hn::LoadU(d, operands[1] + i), hn::LoadU(d, operands[0] + i)), d,
               operands[0] + i);
  });
}

template <typename T>
void mul(int64_t count, T* const* operands, const double*) {
  over<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, operands[1] + i), hn::LoadU(d, operands[0] + i)), d, operands[0] + i);
  });
}

template <typename T>
void scale(int64_t count, T* const* operands, const double* numbers) {
  over<T>(count, [&](auto d, int64_t i)
                     HWY_ATTR { hn::StoreU(hn::Mul(number(d, numbers[0]), hn::LoadU(d, operands[0] + i)), d, operands[0] + i); });
}

template <typename T>
void addcmul(int64_t count, T* const* operands, const double* numbers) {
  over<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto product = hn::Mul(hn::LoadU(d, operands[1] + i), hn::LoadU(d, operands[2] + i));
    hn::StoreU(hn::MulAdd(number(d, numbers[0]), product, hn::LoadU(d, operands[0] + i)), d, operands[0] + i);
  });
}

template <typename T>
void addcdiv(int64_t count, T* const* operands, const double* numbers) {
  over<T>(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto quotient = hn::Div(hn::LoadU(d, operands[1] + i), hn::LoadU(d, operands[2] + i));
    hn::StoreU(hn::MulAdd(number(d, numbers[0]), quotient, hn::LoadU(d, operands[0] + i)), d, operands[0] + i);
  });
}

template <typename T>
void square_root(int64_t count, T* const* operands, const double*) {
  over<T>(count, [&](auto d, int64_t i) HWY_ATTR { hn::StoreU(hn::Sqrt(hn::LoadU(d, operands[0] + i)), d, operands[0] + i); });
}

void adamw_f32(int64_t n, float* const* x, const double* p) { adamw(n, x, p); }
void adamw_f64(int64_t n, double* const* x, const double* p) { adamw(n, x, p); }
void sgd_momentum_f32(int64_t n, float* const* x, const double* p) { sgd_momentum(n, x, p); }
void sgd_momentum_f64(int64_t n, double* const* x, const double* p) { sgd_momentum(n, x, p); }
void sgd_f32(int64_t n, float* const* x, const double* p) { sgd(n, x, p); }
void sgd_f64(int64_t n, double* const* x, const double* p) { sgd(n, x, p); }
void add_f32(int64_t n, float* const* x, const double* p) { add(n, x, p); }
void add_f64(int64_t n, double* const* x, const double* p) { add(n, x, p); }
void mul_f32(int64_t n, float* const* x, const double* p) { mul(n, x, p); }
void mul_f64(int64_t n, double* const* x, const double* p) { mul(n, x, p); }
void scale_f32(int64_t n, float* const* x, const double* p) { scale(n, x, p); }
void scale_f64(int64_t n, double* const* x, const double* p) { scale(n, x, p); }
void addcmul_f32(int64_t n, float* const* x, const double* p) { addcmul(n, x, p); }
void addcmul_f64(int64_t n, double* const* x, const double* p) { addcmul(n, x, p); }
void addcdiv_f32(int64_t n, float* const* x, const double* p) { addcdiv(n, x, p); }
void addcdiv_f64(int64_t n, double* const* x, const double* p) { addcdiv(n, x, p); }
void sqrt_f32(int64_t n, float* const* x, const double* p) { square_root(n, x, p); }
void sqrt_f64(int64_t n, double* const* x, const double* p) { square_root(n, x, p); }

}  // namespace deckle::kernels::cpu::lists::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <array>
#include <cmath>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/foreach/run_lists.h"

namespace deckle::kernels::cpu {
namespace lists {
namespace {

HWY_EXPORT(adamw_f32);
HWY_EXPORT(adamw_f64);
HWY_EXPORT(sgd_momentum_f32);
HWY_EXPORT(sgd_momentum_f64);
HWY_EXPORT(sgd_f32);
HWY_EXPORT(sgd_f64);
HWY_EXPORT(add_f32);
HWY_EXPORT(add_f64);
HWY_EXPORT(mul_f32);
HWY_EXPORT(mul_f64);
HWY_EXPORT(scale_f32);
HWY_EXPORT(scale_f64);
HWY_EXPORT(addcmul_f32);
HWY_EXPORT(addcmul_f64);
HWY_EXPORT(addcdiv_f32);
HWY_EXPORT(addcdiv_f64);
HWY_EXPORT(sqrt_f32);
HWY_EXPORT(sqrt_f64);

using List = std::span<const View>;

}  // namespace
}  // namespace lists

using namespace lists;

/// parameters *= 1 - lr weight_decay, then minus lr (average / (1 - beta1^step)) / (sqrt(square / (1 - beta2^step)) + epsilon).
void foreach_adamw(const CpuContext&, List parameters, List gradients, List averages, List squares, double lr, double beta1,
                   double beta2, double epsilon, double weight_decay, int64_t step) {
  const double t = static_cast<double>(step);
  const std::array numbers = {lr / (1 - std::pow(beta1, t)),        beta1, beta2, epsilon, 1 - lr * weight_decay,
                              1 / std::sqrt(1 - std::pow(beta2, t))};
  const std::array lists = {parameters, averages, squares, gradients};
  run_lists({DECKLE_SIMD(adamw_f32), DECKLE_SIMD(adamw_f64), 3}, lists, numbers.data());
}

/// velocity = momentum velocity + (1 - dampening) (gradient + weight_decay parameter); parameter -= lr velocity (Nesterov: lr
/// (gradient + momentum velocity)).
void foreach_sgd_momentum(const CpuContext&, List parameters, List gradients, List velocities, double lr, double momentum,
                          double weight_decay, double dampening, bool nesterov) {
  const std::array numbers = {lr, momentum, weight_decay, 1 - dampening, nesterov ? 1.0 : 0.0};
  const std::array lists = {parameters, velocities, gradients};
  run_lists({DECKLE_SIMD(sgd_momentum_f32), DECKLE_SIMD(sgd_momentum_f64), 2}, lists, numbers.data());
}

void foreach_sgd(const CpuContext&, List parameters, List gradients, double lr, double weight_decay) {
  const std::array numbers = {lr, weight_decay};
  const std::array lists = {parameters, gradients};
  run_lists({DECKLE_SIMD(sgd_f32), DECKLE_SIMD(sgd_f64), 1}, lists, numbers.data());
}

void foreach_add(const CpuContext&, List self, List other, double alpha) {
  const std::array lists = {self, other};
  run_lists({DECKLE_SIMD(add_f32), DECKLE_SIMD(add_f64), 1}, lists, &alpha);
}

void foreach_mul(const CpuContext&, List self, List other) {
  const std::array lists = {self, other};
  run_lists({DECKLE_SIMD(mul_f32), DECKLE_SIMD(mul_f64), 1}, lists, nullptr);
}

void foreach_scale(const CpuContext&, List self, double factor) {
  const std::array lists = {self};
  run_lists({DECKLE_SIMD(scale_f32), DECKLE_SIMD(scale_f64), 1}, lists, &factor);
}

void foreach_addcmul(const CpuContext&, List self, List first, List second, double value) {
  const std::array lists = {self, first, second};
  run_lists({DECKLE_SIMD(addcmul_f32), DECKLE_SIMD(addcmul_f64), 1}, lists, &value);
}

void foreach_addcdiv(const CpuContext&, List self, List numerator, List denominator, double value) {
  const std::array lists = {self, numerator, denominator};
  run_lists({DECKLE_SIMD(addcdiv_f32), DECKLE_SIMD(addcdiv_f64), 1}, lists, &value);
}

void foreach_sqrt(const CpuContext&, List self) {
  const std::array lists = {self};
  run_lists({DECKLE_SIMD(sqrt_f32), DECKLE_SIMD(sqrt_f64), 1}, lists, nullptr);
}

}  // namespace deckle::kernels::cpu
#endif
