#include <gtest/gtest.h>

#include <functional>
#include <span>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "tests/kernels/cpu/support/buffer.h"
#include "tests/kernels/cpu/support/threads.h"

namespace deckle::kernels::cpu {
using List = std::span<const View>;
void foreach_adamw(const Context&, List parameters, List gradients, List averages, List squares, double lr, double beta1,
                   double beta2, double epsilon, double weight_decay, int64_t step);
void foreach_sgd_momentum(const Context&, List parameters, List gradients, List velocities, double lr, double momentum,
                          double weight_decay, double dampening, bool nesterov);
void foreach_sgd(const Context&, List parameters, List gradients, double lr, double weight_decay);
void foreach_add(const Context&, List self, List other, double alpha);
void foreach_mul(const Context&, List self, List other);
void foreach_copy(const Context&, List self, List source);
void foreach_scale(const Context&, List self, double factor);
void foreach_addcmul(const Context&, List self, List first, List second, double value);
void foreach_addcdiv(const Context&, List self, List numerator, List denominator, double value);
void foreach_sqrt(const Context&, List self);
void foreach_norm(const Context&, List self, const View& result);
void foreach_dot(const Context&, List self, List other, const View& result);
void foreach_dot_over(const Context&, List self, List other, const View& divisor, const View& result);
}  // namespace deckle::kernels::cpu

namespace deckle {
namespace {

using namespace kernels::cpu;
using testing::Buffer;
using testing::expect_close;
using testing::poisoned;
using testing::random_normal;
using testing::values;

constexpr DType kFloating[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

/// AdamW is a dozen operations on an element; products that cancel may be several times the result.
double tolerance(DType dtype) { return testing::rounding_bound(dtype, 4 * 12, 4 * 12); }

// Tensors of awkward sizes, among them none, one element, and several runs.
struct ListOf {
  std::vector<Buffer> buffers;
  std::vector<View> views;
  std::vector<std::vector<double>> before;

  ListOf(DType dtype, bool positive) {
    for (const int64_t size : {0, 1, 7, 1000, 40003}) {
      buffers.push_back(random_normal({size}, dtype));
      const View& view = buffers.back().view;
      if (positive)
        for (int64_t i = 0; i < size; ++i)
          testing::store(view.data, dtype, i, std::abs(testing::load(view.data, dtype, i)) + 0.5);
      views.push_back(view);
      before.push_back(values(view));
    }
  }
};

class EveryDType : public ::testing::TestWithParam<DType> {
 protected:
  using Formula = std::function<double(const double* x)>;

  // formulas[j] gives operand j after the op from all operands before it; operands beyond must not change.
  void expect_lists(const std::vector<ListOf*>& lists, const std::vector<Formula>& formulas) {
    for (size_t j = 0; j < lists.size(); ++j) {
      for (size_t i = 0; i < lists[j]->views.size(); ++i) {
        std::vector<double> want = lists[j]->before[i];
        for (size_t n = 0; n < want.size(); ++n) {
          double x[4];
          for (size_t k = 0; k < lists.size(); ++k) x[k] = lists[k]->before[i][n];
          if (j < formulas.size()) want[n] = formulas[j](x);
        }
        expect_close(lists[j]->views[i], want, j < formulas.size() ? tolerance(GetParam()) : 0);
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Floating, EveryDType, ::testing::ValuesIn(kFloating),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(EveryDType, AdamwTakesTheStepOfThePaper) {
  ListOf p(GetParam(), false), m(GetParam(), false), v(GetParam(), true), g(GetParam(), false);
  const double lr = 0.01, b1 = 0.9, b2 = 0.99, epsilon = 1e-3, decay = 0.1;
  foreach_adamw({}, p.views, g.views, m.views, v.views, lr, b1, b2, epsilon, decay, 3);
  const auto average = [=](const double* x) { return b1 * x[1] + (1 - b1) * x[3]; };
  const auto square = [=](const double* x) { return b2 * x[2] + (1 - b2) * x[3] * x[3]; };
  expect_lists({&p, &m, &v, &g}, {[=](const double* x) {
                                    const double m_hat = average(x) / (1 - std::pow(b1, 3)),
                                                 v_hat = square(x) / (1 - std::pow(b2, 3));
                                    return x[0] - lr * decay * x[0] - lr * m_hat / (std::sqrt(v_hat) + epsilon);
                                  },
                                  average, square});
}

TEST_P(EveryDType, SgdWithAndWithoutMomentum) {
  for (const bool nesterov : {false, true}) {
    ListOf p(GetParam(), false), v(GetParam(), false), g(GetParam(), false);
    foreach_sgd_momentum({}, p.views, g.views, v.views, 0.1, 0.9, 0.01, 0.2, nesterov);
    const auto velocity = [](const double* x) { return 0.9 * x[1] + 0.8 * (x[2] + 0.01 * x[0]); };
    expect_lists({&p, &v, &g},
                 {[=](const double* x) { return x[0] - 0.1 * (nesterov ? x[2] + 0.01 * x[0] + 0.9 * velocity(x) : velocity(x)); },
                  velocity});
  }
  ListOf p(GetParam(), false), g(GetParam(), false);
  foreach_sgd({}, p.views, g.views, 0.1, 0.01);
  expect_lists({&p, &g}, {[](const double* x) { return x[0] - 0.1 * (x[1] + 0.01 * x[0]); }});
}

TEST_P(EveryDType, ArithmeticOnLists) {
  ListOf a(GetParam(), false), b(GetParam(), false), c(GetParam(), true);
  foreach_addcdiv({}, a.views, b.views, c.views, -0.5);
  expect_lists({&a, &b, &c}, {[](const double* x) { return x[0] - 0.5 * x[1] / x[2]; }});
  ListOf d(GetParam(), false);
  foreach_addcmul({}, d.views, b.views, c.views, 2);
  expect_lists({&d, &b, &c}, {[](const double* x) { return x[0] + 2 * x[1] * x[2]; }});
  ListOf e(GetParam(), false);
  foreach_add({}, e.views, b.views, 0.25);
  expect_lists({&e, &b}, {[](const double* x) { return x[0] + 0.25 * x[1]; }});
  ListOf f(GetParam(), false);
  foreach_mul({}, f.views, b.views);
  expect_lists({&f, &b}, {[](const double* x) { return x[0] * x[1]; }});
  ListOf g(GetParam(), false);
  foreach_scale({}, g.views, 1.5);
  expect_lists({&g}, {[](const double* x) { return 1.5 * x[0]; }});
  ListOf h(GetParam(), true);
  foreach_sqrt({}, h.views);
  expect_lists({&h}, {[](const double* x) { return std::sqrt(x[0]); }});
  ListOf i(GetParam(), false);
  foreach_copy({}, i.views, b.views);
  expect_lists({&i, &b}, {[](const double* x) { return x[1]; }});
}

TEST_P(EveryDType, NormOfEachTensorIsBitEqualForAnyNumberOfThreads) {
  const ListOf x(GetParam(), false);
  std::vector<double> want;
  for (const auto& tensor : x.before) {
    double sum = 0;
    for (const double value : tensor) sum += value * value;
    want.push_back(std::sqrt(sum));
  }
  testing::expect_same_for_thread_counts([&] {
    const Buffer result = poisoned({static_cast<int64_t>(want.size())}, DType::float64);
    foreach_norm({}, x.views, result.view);
    expect_close(result.view, want, 1e-12);
    return testing::bytes(result);
  });
}

TEST(ForeachNorm, OfNumbersWhoseSquaresOverflowOrVanish) {
  const double sizes[] = {1e200, 1e-200, 1};
  std::vector<Buffer> buffers;
  std::vector<View> views;
  for (const double size : sizes) {
    buffers.push_back(random_normal({40'003}, DType::float64));
    views.push_back(buffers.back().view);
    for (int64_t i = 0; i < 40'003; ++i) views.back().ptr<double>()[i] *= size;
  }
  views.back().ptr<double>()[20'000] = 1e200;  // one among usual ones, in a run of its own
  std::vector<double> want;
  for (const View& view : views) {
    long double sum = 0;  // whose exponents suffice
    for (const double value : values(view)) sum += static_cast<long double>(value) * value;
    want.push_back(static_cast<double>(std::sqrt(sum)));
  }
  testing::expect_same_for_thread_counts([&] {
    const Buffer result = poisoned({3}, DType::float64);
    foreach_norm({}, views, result.view);
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(result.view.ptr<double>()[i] / want[i], 1, 1e-14) << sizes[i];
    return testing::bytes(result);
  });
}

TEST_P(EveryDType, DotOfEachPairIsBitEqualForAnyNumberOfThreads) {
  const ListOf x(GetParam(), false), y(GetParam(), true);
  std::vector<double> want;
  for (size_t i = 0; i < x.before.size(); ++i) {
    long double sum = 0;
    for (size_t k = 0; k < x.before[i].size(); ++k) sum += x.before[i][k] * y.before[i][k];
    want.push_back(static_cast<double>(sum));
  }
  testing::expect_same_for_thread_counts([&] {
    const Buffer result = poisoned({static_cast<int64_t>(want.size())}, DType::float64);
    foreach_dot({}, x.views, y.views, result.view);
    expect_close(result.view, want, 1e-12);
    return testing::bytes(result);
  });
  const Buffer divisor = poisoned({static_cast<int64_t>(want.size())}, DType::float64);
  for (size_t i = 0; i < want.size(); ++i) want[i] /= divisor.view.ptr<double>()[i] = 3 + static_cast<double>(i);
  testing::expect_same_for_thread_counts([&] {
    const Buffer result = poisoned({static_cast<int64_t>(want.size())}, DType::float64);
    foreach_dot_over({}, x.views, y.views, divisor.view, result.view);
    expect_close(result.view, want, 1e-12);
    return testing::bytes(result);
  });
}

}  // namespace
}  // namespace deckle
