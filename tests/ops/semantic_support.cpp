#include "tests/ops/semantic_support.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "deckle/ops/generated/shape.h"
#include "tests/support/random.h"

namespace deckle::suite {
namespace {

/// Sum of products, 0 for undefined tensors.
double dot(const Tensors& a, const Tensors& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!a[i].defined() || !b[i].defined()) continue;
    const std::vector<double> x = a[i].to_vector(), y = b[i].to_vector();
    for (size_t k = 0; k < x.size(); ++k) sum += x[k] * y[k];
  }
  return sum;
}

void expect_equal(const Derivatives& got, const Derivatives& expected, double tolerance, const std::string& what) {
  expect_same(got.value, expected.value, tolerance, "the value" + what);
  expect_same(got.reverse, expected.reverse, tolerance, "reverse mode" + what);
  expect_same(got.forward, expected.forward, tolerance, "forward mode" + what);
  expect_same(got.reverse_reverse, expected.reverse_reverse, tolerance, "reverse over reverse" + what);
  expect_same(got.forward_reverse, expected.forward_reverse, tolerance, "forward over reverse" + what);
  expect_same(got.reverse_forward, expected.reverse_forward, tolerance, "reverse over forward" + what);
  expect_same(got.forward_forward, expected.forward_forward, tolerance, "forward over forward" + what);
}

}  // namespace

bool floating(const Tensor& tensor) { return tensor.defined() && is_floating(tensor.dtype()); }

Tensors random_like(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& tensor : tensors) result.push_back(testing::random_tensor(tensor.sizes(), tensor.dtype()));
  return result;
}

Tensors ones_like_each(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& tensor : tensors) result.push_back(of_values(tensor.sizes(), tensor.dtype(), [](size_t) { return 1.0; }));
  return result;
}

Tensors only(const Tensors& tensors, size_t index) {
  Tensors result(tensors.size());
  result[index] = tensors[index];
  return result;
}

Tensors differentiable(const Case& op) {
  Tensors result;
  for (size_t i = 0; i < op.tensors.size(); ++i) {
    if (op.differentiable[i]) result.push_back(op.tensors[i]);
  }
  return result;
}

Tensors with(const Case& op, const Tensors& inputs) {
  Tensors all = op.tensors;
  for (size_t i = 0, next = 0; i < all.size(); ++i) {
    if (op.differentiable[i]) all[i] = inputs[next++];
  }
  return all;
}

Tensors floating_only(Tensors results) {
  std::erase_if(results, [](const Tensor& result) { return !floating(result); });
  return results;
}

Function function_of(const Case& op) {
  return [&op](const Tensors& inputs) { return floating_only(called(op, with(op, inputs))); };
}

Tensor positive(const Tensor& tensor) {
  const std::vector<double> values = tensor.to_vector();
  return of_values(tensor.sizes(), tensor.dtype(), [&](size_t i) { return std::abs(values[i]) + 0.25; });
}

void expect_same(const Tensor& got, const Tensor& expected, double tolerance, const std::string& what) {
  if (!got.defined() && !expected.defined()) return;
  ASSERT_TRUE(got.defined() && expected.defined()) << what;
  expect_near(got, expected, tolerance, what);
}

void expect_same(const Tensors& got, const Tensors& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    expect_same(got[i], expected[i], tolerance, fmt::format("{}, tensor {}", what, i));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

Derivatives derivatives_of(const Function& f, const Tensors& x, const Tensors& c, const Tensors& t, const Tensors& u) {
  const auto gradient = [&](const Tensors& at) { return vjp(f, at, c).second; };
  const auto slope = [&](const Tensors& at) { return jvp(f, at, u).second; };
  return {f(x),
          gradient(x),
          jvp(f, x, t).second,
          vjp(gradient, x, u).second,
          jvp(gradient, x, u).second,
          vjp(slope, x, c).second,
          jvp(slope, x, t).second};
}

void expect_consistent(const Derivatives& d, const Tensors& c, const Tensors& t, double tolerance, const std::string& what) {
  expect_same(d.forward_reverse, d.reverse_reverse, tolerance, "forward over reverse and reverse over reverse" + what);
  expect_same(d.reverse_forward, d.reverse_reverse, tolerance, "reverse over forward and reverse over reverse" + what);
  const auto expect_dots = [&](const Tensors& a, const Tensors& b, const Tensors& p, const Tensors& q, const std::string& modes) {
    const double left = dot(a, b), right = dot(p, q);
    EXPECT_EQ(std::isfinite(left), std::isfinite(right)) << modes << what << ": " << left << " and " << right;
    if (!std::isfinite(left) || !std::isfinite(right)) return;
    double scale = 1;
    for (const Tensors* tensors : {&a, &p}) {
      for (const Tensor& tensor : *tensors) {
        if (tensor.defined()) scale += std::sqrt(dot({tensor}, {tensor}));
      }
    }
    EXPECT_NEAR(left, right, tolerance * scale) << modes << what;
  };
  expect_dots(d.forward, c, d.reverse, t, "forward mode and reverse mode");
  expect_dots(d.forward_forward, c, d.reverse_reverse, t, "forward over forward and reverse over reverse");
}

void expect_alike(const Function& f, const Function& g, const Tensors& x, const std::string& what) {
  const Tensors c = random_like(g(x)), t = random_like(x), u = random_like(x);
  expect_equal(derivatives_of(f, x, c, t, u), derivatives_of(g, x, c, t, u), 1e-9, what);
}

}  // namespace deckle::suite
