// The steps of the list ops on one run of elements.                            Memory-bound: every operand is read once.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/foreach/steps.cpp"
#include "deckle/kernels/cpu/simd/targets.h"
// After targets.h.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "deckle/kernels/cpu/foreach/run_lists.h"
#include "deckle/kernels/cpu/simd/table.h"

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
void copy(int64_t count, T* const* operands, const double*) {
  over<T>(count, [&](auto d, int64_t i) HWY_ATTR { hn::StoreU(hn::LoadU(d, operands[1] + i), d, operands[0] + i); });
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

template <typename T>
Steps<T> steps() {
  return {&adamw<T>, &sgd_momentum<T>, &sgd<T>, &add<T>, &mul<T>, &scale<T>, &addcmul<T>, &addcdiv<T>, &square_root<T>, &copy<T>};
}

RealTable<Steps> step_table() { return {steps<float>(), steps<double>()}; }

}  // namespace deckle::kernels::cpu::lists::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <array>
#include <cmath>

#include "deckle/kernels/args/context.h"

namespace deckle::kernels::cpu {
namespace lists {
namespace {

HWY_EXPORT(step_table);

/// The list op of the steps that `member(table)` picks, in both precisions.
template <typename Member>
ListStep step_of(Member member, int written) {
  const RealTable<Steps> table = DECKLE_SIMD(step_table)();
  return {member(table.f32), member(table.f64), written};
}

using List = std::span<const View>;

}  // namespace
}  // namespace lists

using namespace lists;

/// parameters *= 1 - lr weight_decay, then minus lr (average / (1 - beta1^step)) / (sqrt(square / (1 - beta2^step)) + epsilon).
void foreach_adamw(const Context&, List parameters, List gradients, List averages, List squares, double lr, double beta1,
                   double beta2, double epsilon, double weight_decay, int64_t step) {
  const double t = static_cast<double>(step);
  const std::array numbers = {lr / (1 - std::pow(beta1, t)),        beta1, beta2, epsilon, 1 - lr * weight_decay,
                              1 / std::sqrt(1 - std::pow(beta2, t))};
  const std::array lists = {parameters, averages, squares, gradients};
  run_lists(step_of([](const auto& steps) { return steps.adamw; }, 3), lists, numbers.data());
}

/// counter: learning rate and steps before this one.
void foreach_adamw_counted(const Context& context, List parameters, List gradients, List averages, List squares,
                           const View& counter, const View& skip, double beta1, double beta2, double epsilon,
                           double weight_decay) {
  if (skip.defined && *skip.ptr<bool>()) return;
  double* const count = counter.ptr<double>();
  count[1] += 1;
  foreach_adamw(context, parameters, gradients, averages, squares, count[0], beta1, beta2, epsilon, weight_decay,
                static_cast<int64_t>(count[1]));
}

/// velocity = momentum velocity + (1 - dampening) (gradient + weight_decay parameter); parameter -= lr velocity (Nesterov: lr
/// (gradient + momentum velocity)).
void foreach_sgd_momentum(const Context&, List parameters, List gradients, List velocities, double lr, double momentum,
                          double weight_decay, double dampening, bool nesterov) {
  const std::array numbers = {lr, momentum, weight_decay, 1 - dampening, nesterov ? 1.0 : 0.0};
  const std::array lists = {parameters, velocities, gradients};
  run_lists(step_of([](const auto& steps) { return steps.sgd_momentum; }, 2), lists, numbers.data());
}

void foreach_sgd(const Context&, List parameters, List gradients, double lr, double weight_decay) {
  const std::array numbers = {lr, weight_decay};
  const std::array lists = {parameters, gradients};
  run_lists(step_of([](const auto& steps) { return steps.sgd; }, 1), lists, numbers.data());
}

void foreach_add(const Context&, List self, List other, double alpha) {
  const std::array lists = {self, other};
  run_lists(step_of([](const auto& steps) { return steps.add; }, 1), lists, &alpha);
}

void foreach_mul(const Context&, List self, List other) {
  const std::array lists = {self, other};
  run_lists(step_of([](const auto& steps) { return steps.mul; }, 1), lists, nullptr);
}

void foreach_copy(const Context&, List self, List source) {
  const std::array lists = {self, source};
  run_lists(step_of([](const auto& steps) { return steps.copy; }, 1), lists, nullptr);
}

void foreach_scale(const Context&, List self, double factor) {
  const std::array lists = {self};
  run_lists(step_of([](const auto& steps) { return steps.scale; }, 1), lists, &factor);
}

void foreach_scale_by(const Context& context, List self, const View& factor) {
  foreach_scale(context, self, *factor.ptr<double>());
}

void foreach_addcmul(const Context&, List self, List first, List second, double value) {
  const std::array lists = {self, first, second};
  run_lists(step_of([](const auto& steps) { return steps.addcmul; }, 1), lists, &value);
}

void foreach_addcdiv(const Context&, List self, List numerator, List denominator, double value) {
  const std::array lists = {self, numerator, denominator};
  run_lists(step_of([](const auto& steps) { return steps.addcdiv; }, 1), lists, &value);
}

void foreach_sqrt(const Context&, List self) {
  const std::array lists = {self};
  run_lists(step_of([](const auto& steps) { return steps.square_root; }, 1), lists, nullptr);
}

}  // namespace deckle::kernels::cpu
#endif
