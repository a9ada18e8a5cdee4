#include "tests/ops/agreement.h"

#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/tolerances.h"
#include "tests/support/random.h"

namespace deckle::suite {
namespace {

Tensors random_like(const Tensors& tensors) {
  Tensors result;
  for (const Tensor& tensor : tensors) result.push_back(testing::random_tensor(tensor.sizes(), tensor.dtype()));
  return result;
}

/// The same elements, of which no two lie side by side.
Tensor strided(const Tensor& tensor) { return tensor.defined() ? select(stack({tensor, tensor}, -1), -1, 0) : tensor; }

/// As functions of the operands that derivatives are taken for, with floating results only.
VectorFunction of_inputs(const Agreement& on, const VectorFunction& f) {
  return [&on, f](const Tensors& inputs) {
    Tensors x = on.operands;
    for (size_t i = 0, next = 0; i < x.size(); ++i) {
      if (on.differentiable[i]) x[i] = inputs[next++];
    }
    Tensors results = f(x);
    std::erase_if(results, [](const Tensor& result) { return !is_floating(result.dtype()); });
    return results;
  };
}

void compare_dtypes(const Agreement& on, const VectorFunction& got, const VectorFunction& expected) {
  for (const auto& [dtype, tolerance] : kNarrow) {
    Tensors x = on.operands;
    for (Tensor& operand : x) {
      if (operand.defined() && operand.dtype() == DType::float64) operand = to(operand, dtype);
    }
    expect_near(got(x), expected(x), tolerance, "in " + std::string(name(dtype)));
  }
}

void compare_derivatives(const Agreement& on, const VectorFunction& got, const VectorFunction& expected) {
  Tensors x;
  for (size_t i = 0; i < on.operands.size(); ++i) {
    if (on.differentiable[i]) x.push_back(on.operands[i]);
  }
  const VectorFunction f = of_inputs(on, got), g = of_inputs(on, expected);
  const Tensors results = g(x);
  if (results.empty()) return;
  const Tensors cotangents = random_like(results), tangents = random_like(x), second = random_like(x);
  expect_near(vjp(f, x, cotangents).second, vjp(g, x, cotangents).second, 1e-9, "reverse mode");
  expect_near(jvp(f, x, tangents).second, jvp(g, x, tangents).second, 1e-9, "forward mode");
  const auto gradient = [&](const VectorFunction& of) -> VectorFunction {
    return [of, &cotangents](const Tensors& at) { return vjp(of, at, cotangents).second; };
  };
  expect_near(vjp(gradient(f), x, second).second, vjp(gradient(g), x, second).second, 1e-8, "reverse over reverse");
  expect_near(jvp(gradient(f), x, tangents).second, jvp(gradient(g), x, tangents).second, 1e-8, "forward over reverse");
}

}  // namespace

void expect_agreement(const Agreement& on, const VectorFunction& got, const VectorFunction& expected) {
  const Tensors values = expected(on.operands);
  if (values.empty()) return;
  expect_near(got(on.operands), values, 1e-11, "values");
  Tensors apart;
  for (const Tensor& operand : on.operands) apart.push_back(strided(operand));
  expect_near(got(apart), values, 1e-11, "of strided operands");
  if (on.dtypes) compare_dtypes(on, got, expected);
  if (on.derivatives) compare_derivatives(on, got, expected);
}

}  // namespace deckle::suite
