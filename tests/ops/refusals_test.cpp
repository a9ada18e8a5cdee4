// What is refused says which function was called, what was given and what would be accepted: functions without an entry too.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <vector>

#include "deckle/autograd/backward.h"
#include "deckle/core/from_data.h"
#include "deckle/functional/jacobian.h"
#include "deckle/functional/transforms.h"
#include "deckle/nested/generated/conv.h"
#include "deckle/nested/generated/norm.h"
#include "deckle/nested/operators.h"
#include "deckle/ops/generated/arrange.h"
#include "deckle/ops/generated/conv.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/linalg.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/op_table.h"
#include "deckle/optim/adamw.h"
#include "deckle/optim/sgd.h"
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
  EXPECT_EQ(error_of([&] { x& x; }),
            "bitwise_and: the operands are float32 (expected integers or bool); self is [2, 1..2, 2], other is [2, 1..2, 2]");
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

TEST(Refusals, OfWhatACompositeCallsNameItsOwnOperands) {
  const Tensor wide = ones({2, 2}, DType::float64), narrow = ones({2, 2}), row = ones({2}, DType::float64);
  EXPECT_EQ(error_of([&] { addmm(wide, narrow, wide); }),
            "addmm: mat1 is float32, mat2 is float64 (expected one dtype, not bool)");
  const Tensor flags = ones({2, 2}, DType::bool_);
  EXPECT_TRUE(
      error_of([&] { mm(flags, flags); }).starts_with("mm: self is bool, which has no arithmetic (expected a numeric dtype)"))
      << error_of([&] { mm(flags, flags); });
  EXPECT_EQ(error_of([&] { mv(narrow, row); }), "mv: self is float32, vec is float64 (expected one dtype, not bool)")
      << "a view of vec";
  EXPECT_EQ(error_of([&] { matmul(ones({1, 2, 2}), wide); }), "matmul: self is float32, other is float64 (expected one dtype)");
  EXPECT_EQ(error_of([&] {
              einsum("ij,jk->ik", {wide, narrow});
            }),
            "einsum: operands[0] is float64, operands[1] is float32 (expected one dtype)");
  EXPECT_EQ(error_of([&] {
              conv1d(ones({1, 5, 2}, DType::float64), ones({3, 2, 2}));
            }),
            "conv1d: input is float64, weight is float32 (expected one dtype)");
  EXPECT_EQ(error_of([&] {
              group_norm(ones({2, 3, 2}, DType::int64), 1);
            }),
            "group_norm: self is int64 (expected a floating dtype)");
  EXPECT_EQ(error_of([&] {
              embedding_bag(ones({4, 2}), zeros({2, 3}, DType::int64), ones({2}), BagMode::sum);
            }),
            "embedding_bag: per_sample_weights has shape [2] (expected [2, 3], that of indices)");
  EXPECT_EQ(error_of([&] { movedim(wide, {5}, {0}); }), "movedim: dim 5 is out of range (expected -2..1)");
  EXPECT_EQ(error_of([&] { repeat_interleave(wide, 2, 7); }),
            "repeat_interleave: dim 7 is out of range for shape [2, 2] (expected -2..1)");
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

/// The Error that `call` throws.
template <typename Call>
Error caught(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error("none");
}

std::string shapes_of(const Error& error) {
  std::string text;
  for (const Operand& operand : error.shapes()) text += operand.name + operand.shape + " ";
  return text;
}

TEST(Refusals, HoldTheShapesOfAllTensorsOfTheCall) {
  const Tensor x = zeros({2, 3}), weight = zeros({4});
  EXPECT_EQ(shapes_of(caught([&] { layer_norm(x, weight); })), "self[2, 3] weight[4] ");
  EXPECT_EQ(shapes_of(caught([&] { sum(x, {5}); })), "self[2, 3] ");
  EXPECT_EQ(shapes_of(caught([&] { x + weight; })), "self[2, 3] other[4] ");
  EXPECT_EQ(shapes_of(caught([&] { zeros({3}).add_(x); })), "self[3] other[2, 3] ");
  EXPECT_EQ(shapes_of(caught([&] { silu_out(weight, x); })), "out[4] self[2, 3] ");
  EXPECT_EQ(shapes_of(caught([&] { cat({x, weight}, 0); })), "tensors[[2, 3], [4]] ");
  EXPECT_EQ(shapes_of(caught([&] { dropout(x, 2); })), "self[2, 3] ") << "a composite";
  EXPECT_EQ(shapes_of(caught([&] { stack(std::vector<Tensor>(20, x), 9); })),
            "tensors[[2, 3], [2, 3], [2, 3], [2, 3], [2, 3], [2, 3], [2, 3], [2, 3], 12 more] ");
  const NestedTensor rows = NestedTensor::from_lengths(x, {1, 1});
  const Error nested = caught([&] { layer_norm(rows, weight); });
  EXPECT_EQ(shapes_of(nested), "self[2, 1, 3] ") << "of the call that the user made";
}

TEST(Refusals, OfEnumsNameTheArgumentAndItsValues) {
  const Tensor x = zeros({2, 5, 3}), weight = zeros({4, 3, 3});
  const auto padding = static_cast<Padding>(9);
  EXPECT_EQ(error_of([&] { conv1d(x, weight, {}, {.padding = padding}); }),
            "conv1d: padding is 9 (expected valid, same or causal)");
  EXPECT_EQ(error_of([&] { conv1d(x, weight, {}, {.padding = static_cast<Padding>(-1)}); }),
            "conv1d: padding is -1 (expected valid, same or causal)");
  EXPECT_EQ(error_of([&] { interpolate1d(x, 2.0, static_cast<Interpolation>(2)); }),
            "interpolate1d: mode is 2 (expected linear or nearest)");
  EXPECT_EQ(error_of([&] {
              embedding_bag(zeros({4, 3}), zeros({2, 2}, DType::int64), {}, static_cast<BagMode>(3));
            }),
            "embedding_bag: mode is 3 (expected sum, mean or max)");
  EXPECT_EQ(error_of([&] { mse_loss(x, x, {.reduction = static_cast<Reduction>(7)}); }),
            "mse_loss: reduction is 7 (expected none, sum, mean, token or sequence)");
  const NestedTensor rows = NestedTensor::from_lengths(zeros({5, 3}), {2, 3});
  const std::string message = error_of([&] { conv1d(rows, weight, {}, {.padding = padding}); });
  EXPECT_TRUE(message.starts_with("conv1d: padding is 9 (expected valid, same or causal)")) << message;
  EXPECT_EQ(to_string(padding), "?");
}

TEST(Refusals, NameTheFunctionThatWasCalledEvenWithoutAnEntry) {
  const Tensor x = ones({2, 3}), i = ones({2}, DType::int64), leaf = ones({3}).requires_grad_();
  const auto same = [](const Tensor& t) { return t; };
  const std::vector<int64_t> negative = {-1}, five = {5}, from_one = {1, 2};
  const auto op_of = [](const std::function<void()>& call) { return caught(call).op(); };
  EXPECT_EQ(op_of([&] { x.size(5); }), "size");
  EXPECT_EQ(op_of([&] { x.stride(5); }), "stride");
  EXPECT_EQ(op_of([&] { x.data<double>(); }), "data");
  EXPECT_EQ(op_of([&] { x.item(); }), "item");
  EXPECT_EQ(op_of([&] { ones({1}, DType::float64).mul(1e30).to_vector<int64_t>(); }), "to_vector");
  EXPECT_EQ(op_of([&] { Tensor().sizes(); }), "Tensor");
  EXPECT_EQ(op_of([&] { ones({}).begin(); }), "begin");
  EXPECT_EQ(op_of([&] { empty({-1}); }), "empty");
  EXPECT_EQ(op_of([&] { from_blob(static_cast<float*>(nullptr), {3}); }), "from_blob");
  EXPECT_EQ(op_of([&] { tensor({{1, 2}, {3}}); }), "tensor");
  EXPECT_EQ(op_of([&] { jvp(same, x, ones({5})); }), "jvp");
  EXPECT_EQ(op_of([&] { vjp(same, x, ones({5})); }), "vjp");
  EXPECT_EQ(op_of([&] { grad(same, x); }), "grad");
  EXPECT_EQ(op_of([&] { jacobian(same, i); }), "jacobian");
  EXPECT_EQ(op_of([&] { Ragged::from_lengths(negative); }), "from_lengths");
  EXPECT_EQ(op_of([&] { Ragged::from_offsets(from_one); }), "from_offsets");
  EXPECT_EQ(op_of([&] { NestedTensor(x, Ragged::from_lengths(five)); }), "NestedTensor");
  EXPECT_EQ(op_of([&] { optim::AdamW({leaf}, {.lr = -1}); }), "AdamW");
  EXPECT_EQ(op_of([&] { optim::Adam({leaf}, {.beta1 = 2}); }), "Adam");
  EXPECT_EQ(op_of([&] { optim::SGD({x}); }), "SGD");
  EXPECT_EQ(op_of([&] { optim::SGD({leaf}).set_lr(3, 0.1); }), "SGD");
  EXPECT_EQ(op_of([&] { optim::AdamW({leaf}).load_state({}); }), "AdamW");
  EXPECT_EQ(op_of([&] {
              const Tensor y = leaf * 2;
              register_hook(y, [](const Tensor& g) { return sum(g); });
              sum(y).backward();
            }),
            "register_hook");
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(OpTable, KnowsEveryFunctionThatNamesItself) {
  std::set<std::string> known, missing;
  for (const OpInfo& op : op_table()) known.emplace(op.name);
  const std::regex names(R"re(\b(?:named|rethrow_from)\("(?:\w+::)*([a-z][\w\[\]]*)")re");
  for (const auto& file : std::filesystem::recursive_directory_iterator(DECKLE_SOURCES)) {
    if (!file.is_regular_file()) continue;
    const std::string text = read(file.path());
    for (std::sregex_iterator at(text.begin(), text.end(), names), end; at != end; ++at)
      if (!known.contains((*at)[1])) missing.insert((*at)[1]);
  }
  EXPECT_EQ(missing, std::set<std::string>()) << "neither an entry nor deckle/by_hand.yaml has them";
}

TEST(OpTable, NamesTheHeadersOfFunctionsWithoutEntries) {
  size_t functions = 0;
  for (const OpInfo& op : op_table()) {
    if (op.because.empty()) continue;
    ++functions;
    const std::string text = read(std::filesystem::path(DECKLE_SOURCES).parent_path() / op.header);
    EXPECT_NE(text.find(std::string(op.name) + "("), std::string::npos)
        << op.position << ": " << op.header << " has no " << op.name;
  }
  EXPECT_GT(functions, 50u);
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
