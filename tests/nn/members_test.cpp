// A parameter that is a member is listed or it is an error; modules that hold other modules; training and evaluation.
#include <gtest/gtest.h>

#include <limits>

#include "deckle/autograd/grad_mode.h"
#include "deckle/nested/operators.h"
#include "deckle/nn/activations.h"
#include "deckle/nn/embedding.h"
#include "deckle/nn/linear.h"
#include "deckle/nn/norm.h"
#include "deckle/nn/sequential.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/optim/sgd.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle::nn {
namespace {

using testing::expect_equal;
using testing::expect_error;
using testing::random_tensor;

std::vector<std::string> names_of(const std::vector<NamedParameter>& parameters) {
  std::vector<std::string> names;
  for (const NamedParameter& parameter : parameters) names.push_back(parameter.name);
  return names;
}

using Names = std::vector<std::string>;

struct Everything final : Module {
  bool flag = true;
  Tensor scale = parameter(ones({2}));
  Buffer mean = Buffer(zeros({3}));
  Tensor absent;
  Linear first{2, 3};
  std::vector<Linear> more{Linear(3, 3), Linear(3, 3, {.bias = false})};
  std::map<std::string, Tensor> by_name{{"a", parameter(ones({1}))}};
  std::optional<Linear> maybe;
  std::unique_ptr<Embedding> far = std::make_unique<Embedding>(4, 2);
  std::shared_ptr<Linear> shared = std::make_shared<Linear>(1, 1);
  std::string text = "no tensor";
  int64_t count_ = 3;
  DECKLE_MEMBERS(flag, scale, mean, absent, first, more, by_name, maybe, far, shared, text, count_);
};

TEST(Members, AreFoundWhereverTensorsCanBe) {
  const Everything module;
  EXPECT_EQ(names_of(module.named_parameters()),
            (Names{"scale", "first.weight", "first.bias", "more.0.weight", "more.0.bias", "more.1.weight", "by_name.a",
                   "far.weight", "shared.weight", "shared.bias"}));
  EXPECT_EQ(names_of(module.named_buffers()), Names{"mean"});
  EXPECT_EQ(module.state().size(), 11u);
}

struct OneForgotten final : Module {
  Linear first{2, 3}, second{3, 2};
  DECKLE_MEMBERS(first);
};
struct TensorForgotten final : Module {
  Tensor scale = parameter(ones({2}));
  Linear first{2, 3};
  DECKLE_MEMBERS(first);
};
struct VectorForgottenBetween final : Module {
  Linear first{2, 3};
  std::vector<Linear> blocks{Linear(3, 3)};
  int count = 1;
  DECKLE_MEMBERS(first, count);
};
struct ForgottenBelow final : Module {
  OneForgotten inner;
  DECKLE_MEMBERS(inner);
};
struct Base : Module {
  Linear first{2, 3};
  DECKLE_MEMBERS(first);
};
struct Derived final : Base {
  Linear second{3, 2};
};
struct DerivedThatLists final : Base {
  Linear second{3, 2};
  DECKLE_MEMBERS(first, second);
};

TEST(Members, ThatAreNotListedAreAnError) {
  expect_error([] { OneForgotten().parameters(); }, "OneForgotten has");
  expect_error([] { OneForgotten().parameters(); },
               "of a member that is not in its DECKLE_MEMBERS(first) (expected all members)");
  expect_error([] { TensorForgotten().state(); }, "TensorForgotten has 16 bytes, 16 from its start, of a member");
  expect_error([] { VectorForgottenBetween().parameters(); }, "VectorForgottenBetween has 24 bytes");
  expect_error([] { ForgottenBelow().parameters(); }, "OneForgotten has");
  expect_error([] { Derived().parameters(); }, "Derived has no DECKLE_MEMBERS of its own");
  EXPECT_EQ(DerivedThatLists().parameters().size(), 4u);
}

struct alignas(64) Wide {
  float values[16] = {};
};
struct ForgottenBeforeAlignment final : Module {
  Tensor scale = parameter(ones({2}));
  Wide wide;
  DECKLE_MEMBERS(wide);
};
struct AlignedElsewhere final : Module {
  std::unique_ptr<Wide> wide = std::make_unique<Wide>();
  Tensor scale = parameter(ones({2}));
  DECKLE_MEMBERS(wide, scale);
};

TEST(Members, BesideAlignmentAreNoPadding) {
  expect_error([] { ForgottenBeforeAlignment().parameters(); },
               "ForgottenBeforeAlignment has 48 bytes, 16 from its start, of a member that is not in its DECKLE_MEMBERS(wide) "
               "(expected all members, those aligned to more than 8 bytes by std::unique_ptr)");
  EXPECT_EQ(AlignedElsewhere().parameters().size(), 1u);
}

// A struct that is copied as its bytes holds no tensors, but what leads to some is another matter.
static_assert(detail::WithoutTensors<std::array<float, 3>> && detail::WithoutTensors<std::variant<int, float>>);
static_assert(!detail::WithoutTensors<Linear*> && !detail::WithoutTensors<std::reference_wrapper<Linear>> &&
              !detail::WithoutTensors<std::span<Linear>> && !detail::WithoutTensors<std::array<Linear*, 2>> &&
              !detail::WithoutTensors<Linear* [2]> && !detail::WithoutTensors<std::variant<int, Linear*>>);

TEST(Members, PaddingIsNoMember) {
  struct Padded final : Module {
    bool a = true;
    Tensor x = parameter(ones({1}));
    int b = 2;
    Linear y{1, 1};
    char c = 'c';
    DECKLE_MEMBERS(a, x, b, y, c);
  };
  EXPECT_EQ(Padded().parameters().size(), 3u);
}

TEST(Training, ReachesEveryModuleBelow) {
  struct Net final : Module {
    Sequential layers{Linear(2, 2), Dropout(0.5), Sequential(Dropout(0.5))};
    std::vector<Dropout> more{Dropout(0.5)};
    DECKLE_MEMBERS(layers, more);
  };
  Net net;
  const Tensor x = ones({50, 2});
  EXPECT_TRUE(net.training() && net.more[0].training());
  EXPECT_FALSE(net.layers(x).to_vector() == net.layers(x).to_vector());
  net.eval();
  EXPECT_FALSE(net.training() || net.more[0].training());
  expect_equal(net.layers(x), net.layers(x));
  net.train();
  EXPECT_TRUE(net.more[0].training());
}

TEST(Sequential, CallsItsLayersInOrderOnDenseAndNestedTensors) {
  const Linear first(3, 4), second(4, 2);
  const Sequential net(
      first, ReLU(), [](const auto& x) { return x * 2; }, second);
  const Tensor x = random_tensor({5, 3}, DType::float32);
  expect_equal(net(x), second(relu(first(x)) * 2));
  const NestedTensor nested = NestedTensor::from_lengths(x, {2, 0, 3});
  expect_equal(net(nested).values(), net(x));
  EXPECT_EQ(names_of(net.named_parameters()), (Names{"0.weight", "0.bias", "3.weight", "3.bias"}));
  EXPECT_TRUE(net.parameters()[0].is_same(first.weight));
  const Sequential dense{Flatten()};
  expect_error([&] { dense(nested); }, "a layer takes dense tensors alone (expected one for nested tensors)");
}

TEST(Sequential, ACopyHasAModeOfItsOwnAndTheSameParameters) {
  Sequential student(Linear(2, 2), Dropout(0.5));
  Sequential teacher = student;
  teacher.eval();
  const Tensor x = ones({50, 2});
  EXPECT_FALSE(student(x).to_vector() == student(x).to_vector());
  expect_equal(teacher(x), teacher(x));
  EXPECT_TRUE(teacher.parameters()[0].is_same(student.parameters()[0]));
}

TEST(Dropout, IsBuiltWithAProbability) {
  expect_error([] { Dropout{1.5}; }, "nn::Dropout: p is 1.5 (expected 0 to 1)");
  expect_error([] { Dropout{std::numeric_limits<double>::quiet_NaN()}; }, "nn::Dropout: p is nan");
}

TEST(BatchNorm1d, WantsAVarianceInTraining) {
  const BatchNorm1d norm(2);
  expect_error([&] { norm(ones({1, 2})); }, "nn::BatchNorm1d: 1 positions have no variance (expected 2 or more in training)");
  EXPECT_TRUE(norm.running_variance.to_vector() == (std::vector<double>{1, 1}));
}

struct TiedNet final : Module {
  Linear first{2, 2};
  Linear again = first;
  DECKLE_MEMBERS(first, again);
};

TEST(TiedWeights, HaveOneValueInAFile) {
  const TiedNet net;
  std::map<std::string, Tensor> state;
  for (const auto& [name, tensor] : net.state()) state[name] = tensor.clone();
  net.load_state(state);
  state.at("again.weight").add_(1);
  expect_error([&] { net.load_state(state); }, "\"again.weight\" and \"first.weight\" are one in the model and differ here");
}

TEST(TiedWeights, AreOneParameterUnderTwoNames) {
  const TiedNet net;
  EXPECT_EQ(names_of(net.named_parameters()), (Names{"first.weight", "first.bias"}));
  EXPECT_EQ(net.parameter_count(), 6);
  EXPECT_EQ(net.state().size(), 4u);
  const Tensor before = net.first.weight.detach().clone();
  optim::SGD optimizer(net.parameters(), {.lr = 0.5});
  sum(net.again(net.first(ones({1, 2})))).backward();
  const Tensor gradient = net.first.weight.grad();
  optimizer.step();
  expect_equal(net.again.weight.detach(), before - gradient * 0.5);
  TiedNet other;
  other.load_state(net.state());
  expect_equal(other.again.weight.detach(), net.first.weight.detach());
}

TEST(Buffers, AreSavedAndNotTrained) {
  struct Mean final : Module {
    Buffer seen = Buffer(zeros({2}));
    Tensor scale = parameter(ones({2}));
    DECKLE_MEMBERS(seen, scale);
  };
  Mean from, to;
  from.seen = random_tensor({2}, DType::float32);
  EXPECT_EQ(from.parameters().size(), 1u);
  to.load_state(from.state());
  expect_equal(to.seen, from.seen);
}

TEST(Freezing, TakesParametersOutOfTraining) {
  const Linear layer(2, 2);
  layer.requires_grad_(false);
  EXPECT_EQ(layer.parameters().size(), 2u);
  EXPECT_FALSE(layer.weight.requires_grad());
  expect_error([&] { optim::SGD optimizer(layer.parameters()); }, "require");
  layer.requires_grad_();
  EXPECT_TRUE(layer.bias.requires_grad());
}

}  // namespace
}  // namespace deckle::nn
