#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "deckle/functional/gradcheck.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/suite_support.h"

namespace deckle::suite {
namespace {

/// How a call is made: for its results, in place, or in place on a part of a larger tensor, which is then the result.
enum class Form { functional, inplace, inplace_on_view };

/// The op as a function of the inputs that derivatives are taken for, with its floating results.
struct Function {
  const Case& op;
  Form form = Form::functional;

  Tensors inputs() const {
    Tensors result;
    for (size_t i = 0; i < op.tensors.size(); ++i) {
      if (op.differentiable[i]) result.push_back(op.tensors[i]);
    }
    return result;
  }
  Tensors operator()(const Tensors& inputs) const {
    Tensors tensors = op.tensors;
    for (size_t i = 0, next = 0; i < tensors.size(); ++i) {
      if (op.differentiable[i]) tensors[i] = inputs[next++];
    }
    Tensors results;
    if (form == Form::functional) {
      results = called(op, tensors);
    } else if (form == Form::inplace) {
      tensors[0] = clone(tensors[0]);
      op.inplace(tensors);
      results = {tensors[0]};
    } else {
      Dims sizes(tensors[0].sizes());
      sizes.push_back(2);
      const Tensor whole = zeros_raw(sizes, tensors[0].dtype(), tensors[0].device()), part = whole.select(-1, 1);
      part.copy_(tensors[0]);
      tensors[0] = part;
      op.inplace(tensors);
      results = {whole};
    }
    std::erase_if(results, [](const Tensor& result) { return !is_floating(result.dtype()); });
    // Elements that are infinite stay so (the maximum of nothing): they have no differences to compare with.
    for (Tensor& result : results) {
      const std::vector<double> values = result.to_vector();
      if (std::any_of(values.begin(), values.end(), [](double value) { return std::isinf(value); }))
        result = masked_fill(result, isinf(result), 0);
    }
    return results;
  }
};

template <typename Check>
void expect_derivative(const std::string& what, Check&& derivative) {
  try {
    derivative();
  } catch (const Error& error) {
    ADD_FAILURE() << what << ": " << error.message();
  }
}

}  // namespace

void check_derivatives(const Case& op) {
  const std::pair<Form, std::string> forms[] = {
      {Form::functional, ""}, {Form::inplace, " in place"}, {Form::inplace_on_view, " in place on a view"}};
  for (const auto& [form, where] : forms) {
    if (form != Form::functional && (!op.inplace || !op.differentiable[0])) continue;
    const Function function{op, form};
    const Tensors inputs = function.inputs();
    expect_derivative("reverse mode" + where, [&] { gradcheck(function, inputs); });
    expect_derivative("forward mode" + where, [&] { forward_gradcheck(function, inputs); });
    expect_derivative("reverse over reverse" + where, [&] { gradgradcheck(function, inputs); });
    expect_derivative("forward over reverse" + where, [&] { forward_gradgradcheck(function, inputs); });
  }
}

/// Every order exists: the slope of a pointwise op as a function of its inputs, to second order once more.
void check_third_order(const Case& op) {
  const Function function{op};
  const auto slope = [&](const Tensors& inputs) {
    const Tensor y = function(inputs)[0];
    return vjp(function, inputs,
               Tensors{of_values(y.sizes(), y.dtype(), [](size_t i) { return 1 + 0.5 * static_cast<double>(i % 3); })})
        .second;
  };
  expect_derivative("third order", [&] { gradgradcheck(slope, function.inputs(), {.step = 1e-5}); });
}

/// Where a function of one tensor, its slope or its curvature has become constant it stays so out to infinity.
void check_limits(const Case& op) {
  using Unary = std::function<Tensor(const Tensor&)>;
  const Unary value = [&](const Tensor& x) { return op.call({x})[0]; };
  const auto slope_of = [](const Unary& f) -> Unary {
    return [f](const Tensor& x) {
      const Tensor y = f(x);
      return vjp([&](const Tensor& point) { return f(point); }, x, of_values(y.sizes(), y.dtype(), [](size_t) { return 1; }))
          .second;
    };
  };
  const Unary slope = slope_of(value), curvature = slope_of(slope);
  for (const DType dtype : {DType::float64, DType::float32}) {
    for (const double sign : {-1.0, 1.0}) {
      const double points[] = {100, 300, 900, 1e30, std::numeric_limits<double>::infinity()};
      const Tensor x = of_values({5}, dtype, [&](size_t i) { return sign * points[i]; });
      const std::pair<const char*, const Unary*> orders[] = {
          {"the value", &value}, {"the slope", &slope}, {"the curvature", &curvature}};
      for (const auto& [what, f] : orders) {
        const std::vector<double> y = (*f)(x).to_vector();
        const double constant = y[0];
        if (!std::isfinite(constant) || std::abs(y[1] - constant) > 1e-9 || std::abs(y[2] - constant) > 1e-9) continue;
        for (const size_t far : {3, 4}) {
          EXPECT_NEAR(y[far], constant, 1e-6)
              << what << " at " << sign * points[far] << " in " << name(dtype) << ", constant from " << sign * points[0] << " on";
        }
      }
    }
  }
}

}  // namespace deckle::suite
