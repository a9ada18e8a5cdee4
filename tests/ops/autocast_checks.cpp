#include "tests/ops/autocast_checks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "deckle/autograd/backward.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/suite_support.h"

namespace deckle::suite {
namespace {

Tensor weights(const Tensor& like, double phase) {
  return of_values(like.sizes(), like.dtype(), [&](size_t i) { return std::sin(1.7 * static_cast<double>(i) + phase); })
      .to(like.device());
}

/// Everything that can be asked of a call: floating results, then gradients, tangents, and derivatives of the gradients.
struct Answers {
  Tensors results, gradients, tangents, second;
};

/// `call` takes the tensors of the case.
template <typename Call>
Answers answers(const Case& op, const Tensors& given, Call&& call) {
  Answers answers;
  Tensors tensors = given, leaves;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!op.derivatives || !op.differentiable[i] || !is_floating(tensors[i].dtype())) continue;
    tensors[i] = tensors[i].detach().requires_grad_();
    leaves.push_back(tensors[i]);
  }
  Tensor total;
  for (const Tensor& result : call(tensors)) {
    answers.results.push_back(result.detach());
    if (!result.requires_grad()) continue;
    const Tensor part = sum(to(result * weights(result, 0.3), DType::float64));
    total = total.defined() ? total + part : part;
  }
  if (!total.defined()) return answers;
  answers.gradients = grad(std::vector<Tensor>{total}, leaves, {.create_graph = true, .allow_unused = true});
  Tensor slope;
  for (const Tensor& gradient : answers.gradients) {
    if (!gradient.defined() || !gradient.requires_grad()) continue;
    const Tensor part = sum(to(gradient * weights(gradient, 0.7), DType::float64));
    slope = slope.defined() ? slope + part : part;
  }
  if (slope.defined()) answers.second = grad(std::vector<Tensor>{slope}, leaves, {.allow_unused = true});
  const autograd::LevelScope scope;
  Tensors duals = given;
  for (size_t i = 0; i < duals.size(); ++i) {
    if (op.differentiable[i] && is_floating(duals[i].dtype()))
      duals[i] = autograd::make_dual(duals[i], weights(duals[i], 1.1), scope.level());
  }
  for (const Tensor& result : call(duals)) {
    if (is_floating(result.dtype())) answers.tangents.push_back(autograd::tangent(result, scope.level()));
  }
  return answers;
}

void expect_equal(const Tensors& got, const Tensors& expected, const char* what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].defined(), expected[i].defined()) << what << " " << i;
    if (!got[i].defined()) continue;
    EXPECT_EQ(got[i].dtype(), expected[i].dtype()) << what << " " << i;
    const std::vector<double> a = got[i].to_vector(), b = expected[i].to_vector();
    for (size_t k = 0; k < a.size(); ++k) {
      if (std::isnan(a[k]) && std::isnan(b[k])) continue;
      ASSERT_EQ(a[k], b[k]) << what << " " << i << ", element " << k;
    }
  }
}

/// Variants that write convert nothing: in the scope they are what they are outside of it, formulas of derivatives included.
void check_written(const Case& op, const Tensors& given) {
  const auto in_scope = [](const auto& call) {
    return [&call](const Tensors& tensors) {
      const Autocast scope(DType::bfloat16);
      return call(tensors);
    };
  };
  if (op.inplace) {
    const auto inplace = [&](Tensors tensors) {
      tensors[0] = clone(tensors[0]);
      op.inplace(tensors);
      return Tensors{tensors[0]};
    };
    const Answers expected = answers(op, given, inplace), got = answers(op, given, in_scope(inplace));
    expect_equal(got.results, expected.results, "the result in place");
    expect_equal(got.gradients, expected.gradients, "the gradient in place");
    expect_equal(got.second, expected.second, "the second derivative in place");
    expect_equal(got.tangents, expected.tangents, "the tangent in place");
  }
  if (op.out) {
    const Tensor like = op.call(given)[0];
    for (const DType dtype : {like.dtype(), DType::float32}) {
      const auto out = [&](const Tensors& tensors) {
        const Tensor written = to(zeros_like(like), dtype);
        op.out(tensors, written);
        return Tensors{written};
      };
      expect_equal(in_scope(out)(given), out(given), "what is written into out");
    }
  }
}

}  // namespace

void check_autocast(const Case& op, autograd::Precision precision, const std::vector<bool>& converted) {
  const bool half = precision == autograd::Precision::half;
  const DType before = half ? DType::float32 : DType::bfloat16, wanted = half ? DType::bfloat16 : DType::float32;
  const Tensors given = mapped(
      op.tensors, [&](const Tensor& tensor) { return is_floating(tensor.dtype()) ? suite::converted(tensor, before) : tensor; });
  const Answers expected = answers(op, given, [&](Tensors tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (converted[i] && is_floating(tensors[i].dtype())) tensors[i] = to(tensors[i], wanted);
    }
    return op.call(tensors);
  });
  const Answers got = answers(op, given, [&](const Tensors& tensors) {
    const Autocast scope(DType::bfloat16);
    return op.call(tensors);
  });
  expect_equal(got.results, expected.results, "the result");
  expect_equal(got.gradients, expected.gradients, "the gradient");
  expect_equal(got.second, expected.second, "the second derivative");
  expect_equal(got.tangents, expected.tangents, "the tangent");
  for (const Tensor& gradient : got.gradients) {
    if (!gradient.defined()) continue;
    EXPECT_EQ(gradient.dtype(), before) << "gradients have the dtype of the operands";
  }
  const Answers inside = [&] {
    const Autocast scope(DType::bfloat16);
    return answers(op, given, op.call);
  }();
  if (half) expect_equal(inside.gradients, expected.gradients, "the gradient, taken inside the scope");
  check_written(op, given);
}

}  // namespace deckle::suite
