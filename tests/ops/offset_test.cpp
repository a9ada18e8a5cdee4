// Functions that a number added to all elements, or a factor, changes in a known way: values and derivatives far from 0, and of
// very large and small elements, are those of the same function near 0 in float64. Every reduction and norm belongs here.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "deckle/autograd/backward.h"
#include "deckle/core/from_data.h"
#include "deckle/functional/transforms.h"
#include "deckle/nested/generated/norm.h"
#include "deckle/nested/generated/reduce.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/random.h"
#include "tests/support/seed.h"

namespace deckle {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

struct Case {
  const char* name;
  Function f;
  int degree = 0;       // f(s x) = s^degree f(x)
  bool by_ops = false;  // sums squares of its elements in their own dtype
};

constexpr int64_t kRows = 12, kColumns = 6;

NestedTensor ragged(const Tensor& x) { return NestedTensor::from_lengths(x, {5, 0, 1, 6}); }
NestedTensor of_equal_lengths(const Tensor& x) { return NestedTensor::from_lengths(x, {3, 3, 3, 3}); }
Tensor in_three(const Tensor& x) { return reshape(x, {3, 4, kColumns}); }

/// Different numbers, the same in every dtype.
Tensor numbers(int64_t n, const Tensor& like) {
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>((7 * i + 3) % 5 - 2) / 4 + (i % 2 == 0 ? 1 : -0.5));
  return tensor(values).to(like.dtype());
}

Tensor parameter(const Tensor& x) { return numbers(kColumns, x); }

/// Changed by no number that is added to all elements.
std::vector<Case> shift_invariant(double eps) {
  return {
      {"var of all", [](const Tensor& x) { return var(x); }, 2},
      {"var of rows", [](const Tensor& x) { return var(x, Ints{1}, {.correction = 0}); }, 2},
      {"var of columns", [](const Tensor& x) { return var(x, Ints{0}); }, 2},
      {"var over two dims",
       [](const Tensor& x) {
         return var(in_three(x), Ints{0, 2}, {.keepdim = true});
       },
       2},
      {"var over a ragged dim", [](const Tensor& x) { return var(ragged(x), Ints{1}).values(); }, 2},
      {"var over the batch", [](const Tensor& x) { return var(of_equal_lengths(x), Ints{0}).values(); }, 2},
      {"var over the batch and a ragged dim",
       [](const Tensor& x) {
         return var(ragged(x), Ints{0, 1}).values();
       },
       2},
      {"std of all", [](const Tensor& x) { return deckle::std(x); }, 1},
      {"std of rows", [](const Tensor& x) { return deckle::std(x, Ints{1}); }, 1},
      {"std of columns", [](const Tensor& x) { return deckle::std(x, Ints{0}, {.correction = 0}); }, 1},
      {"std over two dims",
       [](const Tensor& x) {
         return deckle::std(in_three(x), Ints{2, 0});
       },
       1},
      {"std over a ragged dim", [](const Tensor& x) { return deckle::std(ragged(x), Ints{1}).values(); }, 1},
      {"std over the batch", [](const Tensor& x) { return deckle::std(of_equal_lengths(x), Ints{0}).values(); }, 1},
      {"deviations of rows", [](const Tensor& x) { return deviations(x, Ints{1}); }, 1},
      {"deviations of components", [](const Tensor& x) { return segment_deviations(x, ragged(x).ragged()); }, 1},
      {"layer_norm", [=](const Tensor& x) { return layer_norm(x, parameter(x), parameter(x), eps); }},
      {"layer_norm without parameters", [=](const Tensor& x) { return layer_norm(x, {}, {}, eps); }},
      {"layer_norm of components", [=](const Tensor& x) { return layer_norm(ragged(x), parameter(x), {}, eps).values(); }},
      {"group_norm of a matrix", [=](const Tensor& x) { return group_norm(x, 2, parameter(x), {}, eps); }},
      {"group_norm", [=](const Tensor& x) { return group_norm(in_three(x), 2, parameter(x), parameter(x), eps); }, 0, true},
      {"group_norm of components", [=](const Tensor& x) { return group_norm(ragged(x), 3, parameter(x), {}, eps).values(); }, 0,
       true},
      {"batch_norm", [=](const Tensor& x) { return batch_norm(x, parameter(x), parameter(x), {}, {}, eps); }},
      {"batch_norm of columns far apart", [=](const Tensor& x) { return batch_norm(transpose(x, 0, 1), {}, {}, {}, {}, eps); }, 0,
       true},
      {"batch_norm of components",
       [=](const Tensor& x) { return batch_norm(ragged(x), parameter(x), {}, {}, {}, eps).values(); }},
  };
}

std::vector<Case> softmaxes() {
  return {
      {"softmax of rows", [](const Tensor& x) { return softmax(x, 1); }},
      {"softmax of columns", [](const Tensor& x) { return softmax(x, 0); }},
      {"softmax of components", [](const Tensor& x) { return softmax(ragged(x), 1).values(); }},
      {"log_softmax of rows", [](const Tensor& x) { return log_softmax(x, 1); }},
      {"log_softmax of columns", [](const Tensor& x) { return log_softmax(x, 0); }},
  };
}

std::vector<Case> of_sizes(double eps) {
  return {
      {"mean", [](const Tensor& x) { return mean(x, Ints{1}); }, 1},
      {"norm of all", [](const Tensor& x) { return norm(x); }, 1},
      {"norm of rows", [](const Tensor& x) { return norm(x, Ints{1}); }, 1},
      {"norm of columns", [](const Tensor& x) { return norm(x, Ints{0}); }, 1},
      {"norm of components", [](const Tensor& x) { return norm(ragged(x), Ints{1}).values(); }, 1},
      {"rms_norm", [=](const Tensor& x) { return rms_norm(x, parameter(x), eps); }},
      {"rms_norm of components", [=](const Tensor& x) { return rms_norm(ragged(x), {}, eps).values(); }},
      {"normalize", [=](const Tensor& x) { return normalize(x, 1, eps); }},
  };
}

/// What each mode of differentiation says of f at x: the derivative of an order.
struct Answer {
  const char* mode;
  int order;
  Tensor value;  // float64
};

std::vector<Answer> answers(const Function& f, const Tensor& x, const Tensor& u, const Tensor& v) {
  const auto weighted = [&](const Tensor& at) {
    const Tensor y = f(at);
    return sum(y * reshape(numbers(y.numel(), y), y.sizes()));
  };
  const auto along = [&](const Tensor& at) { return jvp(f, at, u).second; };
  const Tensor leaf = x.detach().requires_grad_();
  const Tensor gradient = grad(weighted(leaf), {leaf}, {.create_graph = true})[0];
  // A derivative that depends on x no more has no history.
  const auto next = [&](const Tensor& y, const Tensor& along) {
    return y.requires_grad() ? grad(sum(y * along), {leaf}, {.create_graph = true})[0] : zeros_like(leaf);
  };
  const Tensor second = next(gradient, u);
  std::vector<Answer> all = {{"value", 0, f(x)},
                             {"tangent", 1, along(x)},
                             {"gradient", 1, gradient},
                             {"reverse over reverse", 2, second},
                             {"forward over reverse", 2, hvp(weighted, x, u).second},
                             {"forward over forward", 2, jvp(along, x, v).second},
                             {"reverse of third order", 3, next(second, v)}};
  for (Answer& each : all) each.value = contiguous(each.value.detach()).to(DType::float64);
  return all;
}

double largest_of(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::isfinite(value) ? std::abs(value) : 0);
  return largest;
}

/// Derivatives of order n, times scale^(n - degree), are those expected, unless they leave [smallest, 1 / smallest]. `terms`:
/// what they are sums of is so large, where they are small.
void compare(const std::vector<Answer>& got, const std::vector<Answer>& expected, double bound, double scale, int degree,
             double smallest, double terms = 0.01) {
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(expected[i].mode);
    const std::vector<double> a = got[i].value.to_vector(), b = expected[i].value.to_vector();
    ASSERT_EQ(a.size(), b.size());
    const double factor = std::pow(scale, expected[i].order - degree), largest = largest_of(b);
    if (largest / factor < smallest || largest / factor > 1 / smallest) continue;
    for (size_t k = 0; k < b.size(); ++k) {
      if (std::isnan(a[k]) && std::isnan(b[k])) continue;
      ASSERT_NEAR(a[k] * factor, b[k], bound * (largest + terms)) << "element " << k;
    }
  }
}

/// Even numbers from 0 to 30.
Tensor even_numbers() {
  std::vector<double> values;
  for (int64_t i = 0; i < kRows * kColumns; ++i) values.push_back(2 * static_cast<double>(testing::random_integer(0, 15)));
  return reshape(tensor(values), {kRows, kColumns}).to(DType::float64);
}

struct Precision {
  DType dtype;
  double offset;  // float64: the mean of var itself is rounded; of others: odd numbers beyond it are none
  double bound;
};
constexpr Precision kPrecisions[] = {{DType::float32, 0x1p24, 2e-5},
                                     {DType::float64, 0x1p36, 1e-9},
                                     {DType::bfloat16, 0x1p8, 0.1},
                                     {DType::float16, 0x1p11, 0.02}};

TEST(Offsets, ChangeNoDerivativeOfWhatTheyDoNotChange) {
  const Tensor x = even_numbers(), u = testing::random_tensor({kRows, kColumns}), v = testing::random_tensor({kRows, kColumns});
  std::vector<Case> cases = shift_invariant(0.1);
  for (const Case& each : softmaxes()) cases.push_back(each);
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    for (const Precision& p : kPrecisions) {
      SCOPED_TRACE(to_string(p.dtype));
      const Tensor a = u.to(p.dtype), b = v.to(p.dtype);
      const std::vector<Answer> expected = answers(each.f, x, a.to(DType::float64), b.to(DType::float64));
      for (const double sign : {1.0, -1.0})
        compare(answers(each.f, (x + sign * p.offset).to(p.dtype), a, b), expected, p.bound, 1, 0, 0x1p-100, 0.1);
    }
  }
}

TEST(Factors, ScaleEveryDerivative) {
  const Tensor x = even_numbers() - 12.5, u = testing::random_tensor({kRows, kColumns}),
               v = testing::random_tensor({kRows, kColumns});
  std::vector<Case> cases = shift_invariant(0);
  for (const Case& each : of_sizes(0)) cases.push_back(each);
  struct Factor {
    DType dtype;
    double scale, bound, smallest;
  };
  const Factor factors[] = {{DType::float32, 0x1p10, 2e-5, 0x1p-110},  {DType::float32, 0x1p-10, 2e-5, 0x1p-110},
                            {DType::float32, 0x1p40, 2e-5, 0x1p-110},  {DType::float32, 0x1p-40, 2e-5, 0x1p-110},
                            {DType::float32, 0x1p62, 2e-5, 0x1p-110},  {DType::float32, 0x1p-62, 2e-5, 0x1p-110},
                            {DType::float64, 0x1p330, 1e-9, 0x1p-960}, {DType::float64, 0x1p-330, 1e-9, 0x1p-960}};
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    for (const Factor& factor : factors) {
      if (each.by_ops && std::abs(std::log2(factor.scale)) > 10) continue;
      SCOPED_TRACE(to_string(factor.dtype) + " times " + std::to_string(std::log2(factor.scale)));
      const Tensor a = u.to(factor.dtype), b = v.to(factor.dtype);
      const std::vector<Answer> expected = answers(each.f, x, a.to(DType::float64), b.to(DType::float64));
      compare(answers(each.f, (x * factor.scale).to(factor.dtype), a, b), expected, factor.bound, factor.scale, each.degree,
              factor.smallest);
    }
  }
}

TEST(Offsets, OfTwoElements) {
  const Tensor x = tensor({16777216.0f, 16777218.0f}).requires_grad_();
  EXPECT_EQ(grad(var(x), {x})[0].to_vector(), (std::vector<double>{-2, 2}));
}

TEST(Factors, OfTwoElements) {
  const Tensor x = tensor({1e16f, 1e16f}), u = reshape(tensor({1.0f, -1.0f}), {1, 2});
  const Tensor rows = reshape(x, {1, 2});
  EXPECT_NEAR(rms_norm_curvature(u, u, rows, 1e-5).to_vector()[0] / -1e-32, 1, 1e-6);
}

}  // namespace
}  // namespace deckle
