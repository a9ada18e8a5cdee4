// What is refused says which function was called, what was given and what would be accepted: functions without an entry too.
#include <gtest/gtest.h>

#include <regex>
#include <vector>

#include "deckle/autograd/backward.h"
#include "deckle/functional/transforms.h"
#include "deckle/nested/operators.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/op_table.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

using testing::error_of;

TEST(Refusals, OfFunctionsWithoutAnEntryNameThemToo) {
  const Tensor x = ones({3}), leaf = ones({3}).requires_grad_();
  EXPECT_EQ(error_of([&] { x.set_grad(ones({2})); }),
            "set_grad: a gradient of shape [2] float32 for a tensor of shape [3] float32 (expected the same)");
  EXPECT_EQ(error_of([&] { (leaf * 2.0).backward(ones({2})); }),
            "backward: a gradient of shape [2] for an output of shape [3] (expected its shape)");
  EXPECT_EQ(error_of([&] { grad(std::vector<Tensor>{sum(leaf)}, std::vector<Tensor>{x}); }),
            "grad: input 0 of shape [3] does not require grad (expected one that does, or allow_unused)");
  EXPECT_EQ(error_of([&] { register_hook(x, [](const Tensor& g) { return g; }); }),
            "register_hook: the tensor does not require grad (expected one that does)");
  EXPECT_EQ(error_of([&] { ones({2}, DType::int64).requires_grad_(); }),
            "requires_grad_: dtype int64 has no gradient (expected a floating dtype)");
  EXPECT_EQ(error_of([&] { x& x; }), "bitwise_and: the operands are float32 (expected integers or bool)");
}

TEST(Refusals, OfNestedTensorsDoToo) {
  const NestedTensor x = NestedTensor::from_lengths(ones({3, 2}), {1, 2});
  EXPECT_EQ(error_of([&] { x[2]; }), "operator[]: component 2 is out of range for shape [2, 1..2, 2] (expected -2..1)");
  EXPECT_EQ(error_of([&] { x.size(1); }), "size: dim 1 is ragged in shape [2, 1..2, 2] (expected another, or lengths())");
  EXPECT_EQ(error_of([&] { x& x; }), "operator&: an operand is float32 (expected bool)");
}

TEST(Refusals, OfWhatHasNoElementsSayThatNothingWouldBeAccepted) {
  EXPECT_EQ(error_of([] { select(zeros({0}), 0, 0); }), "select: index 0 is out of range for dim 0 of shape [0] (expected none)");
  EXPECT_EQ(error_of([] {
              index_select(zeros({0, 2}), 0, zeros({1}, DType::int64));
            }),
            "index_select: index 0 is out of range (expected none)");
  EXPECT_EQ(error_of([] { index_put(zeros({0}), {zeros({1}, DType::int64)}, zeros({1})); }),
            "index_put: index 0 is out of range for dim 0 of shape [0] (expected none)");
}

TEST(Refusals, OfOperandsGiveTheirShapes) {
  EXPECT_EQ(error_of([] {
              layer_norm(zeros({2, 3}), zeros({4}));
            }),
            "layer_norm: weight has shape [4] (expected [3], the last dim of self [2, 3])");
  EXPECT_EQ(error_of([] {
              linear(zeros({2, 3}), zeros({4, 3}), zeros({5}));
            }),
            "linear: bias is float32 [5] (expected float32 [4], as weight)");
}

TEST(Refusals, AnOutVariantIsNoPartOfADerivative) {
  const Tensor out = zeros({3}), x = ones({3}), leaf = ones({3}).requires_grad_(), written = zeros({3}).requires_grad_();
  const std::string recorded =
      "silu_out: an argument requires grad, and an out= variant records nothing (expected a call under NoGrad)";
  EXPECT_EQ(error_of([&] { silu_out(out, leaf); }), recorded);
  EXPECT_EQ(error_of([&] { silu_out(written, x); }), recorded);
  EXPECT_EQ(error_of([&] { silu_out(leaf * 1.0, x); }), recorded);
  EXPECT_EQ(error_of([&] {
              jvp(
                  [&](const Tensor& y) {
                    silu_out(out, y);
                    return y * 1.0;
                  },
                  x, x);
            }),
            "silu_out: an argument carries a tangent, and an out= variant has no forward mode (expected arguments without)");
  EXPECT_EQ(out.to_vector(), std::vector<double>(3, 0)) << "what is refused writes nothing";
  {
    const NoGrad no_grad;
    silu_out(out, leaf);
    EXPECT_EQ(out.to_vector(), silu(x).to_vector());
  }
}

TEST(Refusals, AnOutVariantMayWriteOverItsOperands) {
  const Tensor memory = arange(0, 6, 1, DType::float32), expected = silu(slice(memory, 0, 0, 5));
  silu_out(slice(memory, 0, 1, 6), slice(memory, 0, 0, 5));  // shifted by one element
  EXPECT_EQ(slice(memory, 0, 1, 6).to_vector(), expected.to_vector());
  const Tensor same = ones({4}), value = silu(same);
  silu_out(same, same);
  EXPECT_EQ(same.to_vector(), value.to_vector());
  EXPECT_EQ(error_of([] { silu_out(expand(zeros({1}), {3}), ones({3})); }),
            "silu_out: the tensor to write into, of shape [3] and strides [0], has several elements in one place (expected its "
            "clone)");
}

TEST(OpTable, SaysOfEveryOpWhichDerivativesExist) {
  const std::string answer = R"((yes|no \([a-z0-9_, ]+\)))";
  const std::regex known(R"(none: (not differentiable|those of [a-z0-9_]+ end at order [123])|reverse yes   forward )" + answer +
                         "   second order " + answer + ".*");
  for (const OpInfo& op : op_table())
    EXPECT_TRUE(std::regex_match(std::string(op.derivatives), known)) << op.name << ": " << op.derivatives;
}

}  // namespace
}  // namespace deckle
