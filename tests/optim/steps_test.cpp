#include <functional>

#include "deckle/core/allocator.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/optim/adamw.h"
#include "deckle/optim/clip.h"
#include "deckle/optim/sgd.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle::optim {
namespace {

using testing::expect_close;
using testing::expect_equal;
using testing::expect_error;
using testing::random_tensor;

/// Leaves of odd sizes: one element, none, more than a run of the list ops.
std::vector<Tensor> random_parameters(DType dtype) {
  std::vector<Tensor> parameters{random_tensor({3, 5}, dtype), random_tensor({}, dtype), random_tensor({0, 2}, dtype),
                                 random_tensor({20'011}, dtype)};
  for (const Tensor& parameter : parameters) parameter.requires_grad_();
  return parameters;
}

void set_random_gradients(const std::vector<Tensor>& parameters) {
  for (const Tensor& parameter : parameters) parameter.set_grad(random_tensor(parameter.sizes(), parameter.dtype()));
}

/// Copies that share nothing.
std::vector<Tensor> copies(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> result;
  for (const Tensor& parameter : parameters) {
    result.push_back(parameter.detach().clone());
    result.back().requires_grad_();
  }
  return result;
}

/// One parameter's values and running averages, stepped in float64.
struct Naive {
  std::vector<double> values, first, second;
  explicit Naive(const Tensor& tensor) : values(tensor.to_vector()), first(values.size()), second(values.size()) {}
};

template <typename Optimizer>
void compare(DType dtype, Optimizer optimizer, const std::vector<Tensor>& parameters,
             const std::function<void(Naive&, const std::vector<double>&, int)>& naive_step) {
  std::vector<Naive> naive(parameters.begin(), parameters.end());
  for (int step = 1; step <= 12; ++step) {
    set_random_gradients(parameters);
    for (size_t i = 0; i < parameters.size(); ++i) naive_step(naive[i], parameters[i].grad().to_vector(), step);
    optimizer.step();
    optimizer.zero_grad();
    for (const Tensor& parameter : parameters) EXPECT_FALSE(parameter.grad().defined());
  }
  const double tolerance = dtype == DType::float64 ? 1e-12 : 2e-5;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::vector<double> got = parameters[i].to_vector();
    for (size_t j = 0; j < got.size(); ++j)
      ASSERT_NEAR(got[j], naive[i].values[j], tolerance) << "parameter " << i << ", element " << j;
  }
}

TEST(AdamW, FollowsItsDefinition) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const std::vector<Tensor> parameters = random_parameters(dtype);
    const AdamWOptions o{.lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1};
    compare(dtype, AdamW(parameters, o), parameters, [&](Naive& p, const std::vector<double>& gradient, int step) {
      for (size_t i = 0; i < gradient.size(); ++i) {
        p.values[i] -= o.lr * o.weight_decay * p.values[i];
        p.first[i] = o.beta1 * p.first[i] + (1 - o.beta1) * gradient[i];
        p.second[i] = o.beta2 * p.second[i] + (1 - o.beta2) * gradient[i] * gradient[i];
        const double average = p.first[i] / (1 - std::pow(o.beta1, step)), square = p.second[i] / (1 - std::pow(o.beta2, step));
        p.values[i] -= o.lr * average / (std::sqrt(square) + o.epsilon);
      }
    });
  }
}

TEST(Adam, AddsTheDecayToTheGradient) {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const std::vector<Tensor> parameters = random_parameters(dtype);
    const AdamOptions o{.lr = 0.02, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.1};
    compare(dtype, Adam(parameters, o), parameters, [&](Naive& p, const std::vector<double>& gradient, int step) {
      for (size_t i = 0; i < gradient.size(); ++i) {
        const double slope = gradient[i] + o.weight_decay * p.values[i];
        p.first[i] = o.beta1 * p.first[i] + (1 - o.beta1) * slope;
        p.second[i] = o.beta2 * p.second[i] + (1 - o.beta2) * slope * slope;
        const double average = p.first[i] / (1 - std::pow(o.beta1, step)), square = p.second[i] / (1 - std::pow(o.beta2, step));
        p.values[i] -= o.lr * average / (std::sqrt(square) + o.epsilon);
      }
    });
  }
}

TEST(Groups, StepAsOptimizersOfTheirOwn) {
  const auto compare_with_two = [](auto joint, auto first, auto second, const std::vector<Tensor>& all,
                                   const std::vector<Tensor>& apart) {
    for (int step = 0; step < 3; ++step) {
      set_random_gradients(all);
      for (size_t i = 0; i < all.size(); ++i) apart[i].set_grad(all[i].grad());
      if (step == 1) {
        joint.set_lr(1, 0.5);
        second.set_lr(0.5);
        EXPECT_EQ(joint.lr(1), 0.5);
        EXPECT_NE(joint.lr(0), 0.5);
      }
      joint.step();
      first.step();
      second.step();
    }
    for (size_t i = 0; i < all.size(); ++i) expect_equal(all[i].detach(), apart[i].detach());
  };
  const auto halves = [](const std::vector<Tensor>& all) {
    return std::pair(std::vector<Tensor>(all.begin(), all.begin() + 2), std::vector<Tensor>(all.begin() + 2, all.end()));
  };
  std::vector<Tensor> all = random_parameters(DType::float64), apart = copies(all);
  const AdamWOptions slow{.lr = 0.01, .weight_decay = 0.1}, fast{.lr = 0.1, .beta1 = 0.5};
  compare_with_two(AdamW({{halves(all).first, slow}, {halves(all).second, fast}}), AdamW(halves(apart).first, slow),
                   AdamW(halves(apart).second, fast), all, apart);
  const SGDOptions plain{.lr = 0.01}, moving{.lr = 0.1, .momentum = 0.9, .dampening = 0.1};
  compare_with_two(SGD({{halves(all).first, plain}, {halves(all).second, moving}}), SGD(halves(apart).first, plain),
                   SGD(halves(apart).second, moving), all, apart);
  expect_error([] { AdamW optimizer(std::vector<Group<AdamWOptions>>{}); }, "no group of parameters (expected one or more)");
  expect_error([&] { SGD(all).set_lr(1, 0.5); }, "SGD: group is 1 (expected 0..0)");
}

// A copy would share averages and velocities, but not what counts them.
static_assert(!std::is_copy_constructible_v<SGD> && !std::is_copy_constructible_v<AdamW> && !std::is_copy_constructible_v<Adam>);
static_assert(!std::is_copy_assignable_v<SGD> && std::is_move_constructible_v<SGD> && std::is_move_constructible_v<Adam>);

TEST(SGD, FollowsItsDefinitionWithAndWithoutMomentum) {
  for (const SGDOptions& o :
       {SGDOptions{.lr = 0.05}, SGDOptions{.lr = 0.05, .weight_decay = 0.1}, SGDOptions{.lr = 0.05, .momentum = 0.9},
        SGDOptions{.lr = 0.05, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.1},
        SGDOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true}}) {
    const std::vector<Tensor> parameters = random_parameters(DType::float64);
    compare(DType::float64, SGD(parameters, o), parameters, [&](Naive& p, const std::vector<double>& gradient, int step) {
      for (size_t i = 0; i < gradient.size(); ++i) {
        const double g = gradient[i] + o.weight_decay * p.values[i];
        p.first[i] = step == 1 ? g : o.momentum * p.first[i] + (1 - o.dampening) * g;
        p.values[i] -= o.lr * (o.nesterov ? g + o.momentum * p.first[i] : p.first[i]);
      }
    });
  }
}

TEST(Optimizers, AParameterWithoutAGradientStays) {
  const std::vector<Tensor> parameters = random_parameters(DType::float32);
  AdamW optimizer(parameters, {.weight_decay = 0.5});
  set_random_gradients(parameters);
  parameters[0].set_grad({});
  const Tensor before = parameters[0].detach().clone(), other = parameters[3].detach().clone();
  optimizer.step();
  expect_equal(parameters[0], before);
  EXPECT_NE(parameters[3].to_vector(), other.to_vector());
}

/// A parameter whose first gradients come late must be stepped as if the optimizer began then.
TEST(Optimizers, EveryParameterHasItsOwnFirstStep) {
  const auto compare_with_fresh = [](auto make) {
    std::vector<Tensor> late = random_parameters(DType::float64);
    auto optimizer = make(late);
    for (int step = 0; step < 3; ++step) {
      set_random_gradients(late);
      late[0].set_grad({});
      optimizer.step();
    }
    const std::vector<Tensor> fresh = copies({late[0]});
    auto alone = make(fresh);
    for (int step = 0; step < 3; ++step) {
      set_random_gradients(late);
      fresh[0].set_grad(late[0].grad().clone());
      optimizer.step();
      alone.step();
      expect_equal(late[0], fresh[0]);
    }
  };
  compare_with_fresh([](const std::vector<Tensor>& parameters) { return AdamW(parameters); });
  compare_with_fresh([](const std::vector<Tensor>& parameters) { return SGD(parameters, {.momentum = 0.8, .dampening = 0.5}); });
}

TEST(Optimizers, GoOnFromTheirStateBitForBit) {
  const std::vector<Tensor> parameters = random_parameters(DType::float32);
  AdamW first(parameters, {.lr = 0.01});
  SGD momentum(parameters, {.lr = 0.01, .momentum = 0.9, .dampening = 0.1});
  for (int step = 0; step < 5; ++step) {
    set_random_gradients(parameters);
    if (step < 2) parameters[1].set_grad({});
    parameters[3].set_grad(step < 4 ? parameters[3].grad() : Tensor());
    first.step();
    momentum.step();
  }
  const std::vector<Tensor> resumed = copies(parameters);
  AdamW second(resumed, {.lr = 0.01});
  SGD second_momentum(resumed, {.lr = 0.01, .momentum = 0.9, .dampening = 0.1});
  second.load_state(first.state());
  second_momentum.load_state(momentum.state());
  for (int step = 0; step < 5; ++step) {
    set_random_gradients(parameters);
    for (size_t i = 0; i < parameters.size(); ++i) resumed[i].set_grad(parameters[i].grad().clone());
    first.step();
    momentum.step();
    second.step();
    second_momentum.step();
  }
  for (size_t i = 0; i < parameters.size(); ++i) expect_equal(resumed[i], parameters[i]);
}

TEST(Optimizers, AStateThatDoesNotFitIsAnError) {
  const std::vector<Tensor> parameters = random_parameters(DType::float32);
  AdamW optimizer(parameters);
  auto state = optimizer.state();
  state.erase("square.1");
  expect_error([&] { optimizer.load_state(state); }, "tensors (expected");
  auto wrong = optimizer.state();
  wrong["average.0"] = random_tensor({2}, DType::float32);
  expect_error([&] { optimizer.load_state(wrong); }, "\"average.0\" is [2] float32 (expected [3, 5] float32)");
  SGD momentum(parameters, {.momentum = 0.9});
  expect_error(
      [&] {
        momentum.load_state({{"velocity.9", random_tensor({})}});
      },
      "of which 0 are velocities of its 4 parameters");
  expect_error(
      [&] {
        momentum.load_state({{"velocity.1", random_tensor({2}, DType::float32)}});
      },
      "\"velocity.1\" is [2] float32 (expected [] float32)");
}

TEST(Optimizers, AStateThatDoesNotFitChangesNothing) {
  const std::vector<Tensor> parameters = random_parameters(DType::float32);
  AdamW optimizer(parameters);
  set_random_gradients(parameters);
  optimizer.step();
  const auto snapshot = [&] {
    State copy;
    for (const auto& [name, tensor] : optimizer.state()) copy[name] = tensor.clone();
    return copy;
  };
  const State before = snapshot();
  const auto expect_refused = [&](const std::string& name, const Tensor& replacement, const std::string& message) {
    State other;
    for (const auto& [key, tensor] : before) other[key] = zeros(tensor.sizes(), tensor.dtype());
    other[name] = replacement;
    expect_error([&] { optimizer.load_state(other); }, message);
    for (const auto& [key, tensor] : snapshot()) expect_equal(tensor, before.at(key));
  };
  expect_refused("square.0", random_tensor({2}, DType::float32), "\"square.0\" is [2] float32");
  expect_refused("steps", zeros({4}, DType::float32), "\"steps\" is [4] float32 (expected [4] int64)");
  expect_refused("steps", zeros({}, DType::int64), "\"steps\" is [] int64 (expected [4] int64)");
  expect_refused("steps", full({4}, -7, DType::int64), "has the count -7 (expected 0 or more)");
}

TEST(Optimizers, WrongParametersAndOptionsAreErrors) {
  const std::vector<Tensor> parameters = random_parameters(DType::float32);
  expect_error([&] { AdamW({random_tensor({2})}); }, "no leaf that requires grad");
  expect_error([&] { SGD({parameters[0], parameters[3], parameters[0]}); }, "parameters 0 and 2 are the same tensor");
  expect_error([&] { AdamW(parameters, {.lr = -1}); }, "AdamW: lr is -1 (expected a number of 0 or more)");
  expect_error([&] { SGD(parameters, {.lr = NAN}); }, "SGD: lr is nan");
  expect_error([&] { AdamW(parameters).set_lr(INFINITY); }, "AdamW: lr is inf");
  expect_error([&] { SGD(parameters).set_lr(-0.5); }, "SGD: lr is -0.5");
  expect_error([&] { SGD(parameters, {.momentum = 0.9, .dampening = 2}); }, "SGD: dampening is 2");
  expect_error([&] { AdamW(parameters, {.beta1 = 1}); }, "AdamW: beta1 is 1");
  expect_error([&] { SGD(parameters, {.nesterov = true}); }, "nesterov without momentum");
}

TEST(Clip, ScalesTheGradientsAsOneVector) {
  const std::vector<Tensor> parameters = random_parameters(DType::float32);
  set_random_gradients(parameters);
  parameters[1].set_grad({});
  double square = 0;
  for (const Tensor& p : parameters) {
    if (!p.grad().defined()) continue;
    for (const double g : p.grad().to_vector()) square += g * g;
  }
  const Tensor before = parameters[3].grad().clone();
  EXPECT_NEAR(clip_gradient_norm(parameters, 1e6), std::sqrt(square), 1e-5 * std::sqrt(square));
  expect_equal(parameters[3].grad(), before);
  clip_gradient_norm(parameters, 0.5);
  EXPECT_NEAR(gradient_norm(parameters), 0.5, 1e-5);
  const double factor = 0.5 / std::sqrt(square);
  for (const int64_t i : {0, 77, 20'010}) EXPECT_NEAR(parameters[3].grad()[i].item(), before[i].item() * factor, 1e-6);
}

TEST(Clip, ScalesAGradientOfTwoParametersOnce) {
  for (const bool on_device : {false, true}) {
    const std::vector<Tensor> parameters = {zeros({2}), zeros({2}), zeros({2})};
    const Tensor shared = tensor({3.0f, 4.0f});
    parameters[0].set_grad(shared);
    parameters[1].set_grad(shared);
    parameters[2].set_grad(tensor({0.0f, 0.0f}));
    const double norm = on_device ? clip_gradient_norm_on_device(parameters, 1).item() : clip_gradient_norm(parameters, 1);
    EXPECT_NEAR(norm, std::sqrt(50), 1e-6);
    EXPECT_NEAR(gradient_norm(parameters), 1, 1e-6);
    EXPECT_NEAR(shared.to_vector()[1], 4 / std::sqrt(50), 1e-6);
  }
}

TEST(Clip, GradientsOfAnyFiniteSizeAreClipped) {
  // Squares of none of these are numbers of their dtype, and of 1e200 and 1e-200 not even float64 ones.
  for (const auto& [dtype, size, precision] :
       {std::tuple{DType::float64, 1e200, 1e-12}, std::tuple{DType::float64, 1e-200, 1e-12},
        std::tuple{DType::float64, 1e-320, 1e-3}, std::tuple{DType::float32, 3e38, 1e-6},
        std::tuple{DType::float32, 1e-38, 1e-6}}) {
    for (const bool on_device : {false, true}) {
      const std::vector<Tensor> parameters = {ones({20'011}, dtype), ones({3, 5}, dtype), ones({0}, dtype)};
      for (const Tensor& p : parameters) p.set_grad(full(p.sizes(), size, dtype));
      const double want = std::sqrt(20'026.0) * size, most = size / 4;
      EXPECT_NEAR(gradient_norm(parameters) / want, 1, precision) << size;
      const double norm =
          on_device ? clip_gradient_norm_on_device(parameters, most).item() : clip_gradient_norm(parameters, most);
      EXPECT_NEAR(norm / want, 1, precision) << size;
      // 1 / 566 of 1e-320 is 3 of the smallest number, of 1e-38 four digits less.
      const double rounding = dtype == DType::float64 ? (size < 1e-300 ? 0.2 : precision) : (size < 1 ? 1e-4 : 1e-6);
      EXPECT_NEAR(gradient_norm(parameters) / most, 1, rounding) << size << (on_device ? " on the device" : "");
    }
  }
}

TEST(Clip, HalvesAreRoundedOnce) {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    for (const bool on_device : {false, true}) {
      const Tensor p = zeros({1001}, dtype), gradient = (rand({1001}) + 1).to(dtype);
      p.set_grad(gradient.clone());
      const double norm = on_device ? clip_gradient_norm_on_device({p}, 0.7).item() : clip_gradient_norm({p}, 0.7);
      const Tensor exact = gradient.to(DType::float64) * (0.7 / norm), error = abs(p.grad().to(DType::float64) - exact) / exact;
      EXPECT_LT(amax(error).item(), dtype == DType::bfloat16 ? 0x1.01p-8 : 0x1.01p-11) << name(dtype) << on_device;
    }
  }
}

TEST(Clip, ErrorsNameWhatWasCalled) {
  const Tensor integers = zeros({2}, DType::int64);
  integers.set_grad(tensor(std::vector<int64_t>{3, 4}));
  const std::vector<double> norms = {5};
  expect_error([&] { clip_gradient_norm({integers}, 1); }, "clip_gradient_norm: ");
  expect_error([&] { clip_gradient_norm({integers}, 1, norms); }, "clip_gradient_norm: ");
  expect_error([&] { clip_gradient_norm_on_device({integers}, 1); }, "clip_gradient_norm_on_device: ");
}

TEST(Clip, GradientsThatAreNotFiniteStay) {
  const std::vector<Tensor> parameters = random_parameters(DType::float32);
  set_random_gradients(parameters);
  parameters[0].grad().view({-1})[2].fill_(INFINITY);
  const Tensor before = parameters[3].grad().clone();
  EXPECT_EQ(clip_gradient_norm(parameters, 1), INFINITY);
  expect_equal(parameters[3].grad(), before);
  parameters[0].grad().view({-1})[2].fill_(NAN);
  EXPECT_TRUE(std::isnan(clip_gradient_norm(parameters, 1)));
  expect_equal(parameters[3].grad(), before);
}

TEST(Optimizers, StepWithoutCopiesOfTheirTensors) {
  const std::vector<Tensor> parameters = random_parameters(DType::float32);
  AdamW adamw(parameters, {});
  SGD sgd(parameters, {.lr = 0.1, .momentum = 0.9});
  set_random_gradients(parameters);
  const auto peak_of = [](auto& optimizer) {
    optimizer.step();  // the first may allocate
    reset_peak_memory();
    const int64_t before = memory_stats().in_use;
    optimizer.step();
    return memory_stats().peak - before;
  };
  EXPECT_EQ(peak_of(adamw), 0);
  EXPECT_EQ(peak_of(sgd), 0);
}

}  // namespace
}  // namespace deckle::optim
