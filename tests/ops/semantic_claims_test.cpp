// The checks of semantic cells find what is wrong: each is given an op that is not what its case claims.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>

#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/ops/autocast_checks.h"
#include "tests/ops/semantic_checks.h"
#include "tests/ops/semantic_support.h"
#include "tests/support/random.h"

namespace deckle::suite {
namespace {

using Tensors = std::vector<Tensor>;

/// What `check` says of the case, failure after failure.
std::string complaints(void (*check)(const Case&), const Case& op) {
  ::testing::TestPartResultArray results;
  {
    const ::testing::ScopedFakeTestPartResultReporter reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    check(op);
  }
  std::string text;
  for (int i = 0; i < results.size(); ++i) text += results.GetTestPartResult(i).message();
  return text;
}

Case of_one(std::function<Tensor(const Tensor&)> f) {
  Case op;
  op.name = "wrongly_claimed";
  op.tensors = {testing::random_tensor({3, 4})};
  op.differentiable = {true};
  op.call = [f = std::move(f)](const Tensors& t) { return Tensors{f(t[0])}; };
  return op;
}

TEST(SemanticCells, AConstantThatTheResultDependsOn) {
  Case op = of_one([](const Tensor& x) { return exp(x); });
  EXPECT_EQ(complaints(check_constant_inputs, op), "");  // it has no constants
  op.differentiable = {false};
  EXPECT_NE(complaints(check_constant_inputs, op).find("has no derivative"), std::string::npos);
  op.call = [](const Tensors& t) { return Tensors{zeros(t[0].sizes(), t[0].dtype())}; };
  EXPECT_EQ(complaints(check_constant_inputs, op), "");
}

TEST(SemanticCells, AnOpThatIsNotLinear) {
  EXPECT_NE(complaints(check_linear, of_one([](const Tensor& x) { return x * x; })).find("said to be linear"), std::string::npos);
  EXPECT_NE(complaints(check_linear, of_one([](const Tensor& x) { return x * 2.0 + 1.0; })), "");
  EXPECT_EQ(complaints(check_linear, of_one([](const Tensor& x) { return cumsum(x, 1); })), "");
}

TEST(SemanticCells, AVariantThatConvertsInAScope) {
  const auto check = [](const Case& op) { check_autocast(op, autograd::Precision::float32, {true}); };
  Case op = of_one([](const Tensor& x) { return exp(x); });
  op.inplace = [](const Tensors& t) { t[0].mul_(0.3); };
  EXPECT_EQ(complaints(check, op), "");
  op.inplace = [](const Tensors& t) { t[0].copy_(exp(t[0]) - exp(t[0] * 0.5)); };  // in float32 there, in bfloat16 elsewhere
  EXPECT_NE(complaints(check, op).find("the result in place"), std::string::npos);
  op.inplace = nullptr;
  op.out = [](const Tensors& t, const Tensor& out) { out.copy_(exp(t[0]) - exp(t[0] * 0.5)); };
  EXPECT_NE(complaints(check, op).find("what is written into out"), std::string::npos);
}

TEST(SemanticCells, AnOpThatReadsWhatItIsSaidNotTo) {
  const auto check = [](const Case& op) { check_metadata(op, {true}); };
  EXPECT_NE(complaints(check, of_one([](const Tensor& x) { return x * 2.0; })).find("only sizes and dtype count"),
            std::string::npos);
  EXPECT_EQ(complaints(check, of_one([](const Tensor& x) { return zeros_like(x); })), "");
}

TEST(SemanticCells, AnOpThatIsLinearInOneOfItsResults) {
  Case op = of_one([](const Tensor& x) { return x; });
  op.call = [](const Tensors& t) { return Tensors{t[0] * 2.0, exp(t[0])}; };
  EXPECT_NE(complaints(check_linear, op), "");
  EXPECT_EQ(complaints(check_linear, of_results(op, {0})), "");
  EXPECT_NE(complaints(check_linear, of_results(op, {1})), "");
}

TEST(SemanticCells, AnOpThatIsNotElementWise) {
  EXPECT_NE(complaints(check_element_wise, of_one([](const Tensor& x) { return cumsum(x, 1); })).find("depends on element"),
            std::string::npos);
  EXPECT_NE(complaints(check_element_wise, of_one([](const Tensor& x) { return sum(x); })), "");
  EXPECT_EQ(complaints(check_element_wise, of_one([](const Tensor& x) { return exp(x); })), "");
}

TEST(SemanticCells, ATangentThatIsNoNumberWhereTheGradientIsOne) {
  const auto modes = [](const Case& op) {
    const Tensor one = full({1}, 1.0, DType::float64);
    Derivatives d;
    d.forward = {op.call(op.tensors)[0]};
    d.reverse = {one};
    expect_consistent(d, {one}, {one}, 1e-8, "");
  };
  const auto of_number = [](double value) { return of_one([value](const Tensor&) { return full({1}, value, DType::float64); }); };
  EXPECT_NE(complaints(modes, of_number(std::nan(""))).find("forward mode and reverse mode"), std::string::npos);
  EXPECT_NE(complaints(modes, of_number(2)), "");
  EXPECT_EQ(complaints(modes, of_number(1)), "");
}

TEST(SemanticCells, AnOperandOfAnotherDtypeThatCountsTwice) {
  Case op = of_one([](const Tensor& x) { return x; });
  op.tensors.push_back(testing::random_tensor({3, 4}));
  op.differentiable.push_back(true);
  op.call = [](const Tensors& t) { return Tensors{t[0] * (t[1].dtype() == DType::float32 ? t[1] * 2.0 : t[1])}; };
  EXPECT_NE(complaints(check_mixed_dtypes, op).find("a tangent with input 1 in float32"), std::string::npos);
  op.call = [](const Tensors& t) { return Tensors{t[0] * t[1]}; };
  EXPECT_EQ(complaints(check_mixed_dtypes, op), "");
}

TEST(SemanticCells, AnInputThatIsWritten) {
  const Case op = of_one([](const Tensor& x) {
    x.add_(x);
    return x * 2.0;
  });
  EXPECT_NE(complaints(check_identity, op).find("was written"), std::string::npos);
}

TEST(SemanticCells, InPlaceThatIsAnotherFunction) {
  Case op = of_one([](const Tensor& x) { return exp(x); });
  op.inplace = [](const Tensors& t) { t[0].mul_(t[0]); };
  EXPECT_NE(complaints(check_inplace, op).find("in place"), std::string::npos);
  op.inplace = [](const Tensors& t) { exp_(t[0]); };
  EXPECT_EQ(complaints(check_inplace, op), "");
}

TEST(SemanticCells, AnOpThatAsksWhetherTwoInputsAreOneTensor) {
  Case op = of_one([](const Tensor& x) { return x; });
  op.tensors.push_back(testing::random_tensor({3, 4}));
  op.differentiable = {true, true};
  op.call = [](const Tensors& t) { return Tensors{t[0].is_same(t[1]) ? t[0] * 2.0 : t[0] + t[1] * 3.0}; };
  EXPECT_NE(complaints(check_aliased_inputs, op).find("one tensor as inputs"), std::string::npos);
}

}  // namespace
}  // namespace deckle::suite
