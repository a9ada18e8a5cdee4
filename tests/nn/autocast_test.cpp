// Training in bfloat16 with float32 parameters, as the entries say which ops are computed in what.
#include "deckle/autograd/autocast.h"

#include "deckle/autograd/grad_mode.h"
#include "deckle/functional/checkpoint.h"
#include "deckle/functional/transforms.h"
#include "deckle/nn/decoder.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/loss.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/optim/adamw.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle::nn {
namespace {

using testing::expect_error;

constexpr DecoderOptions kSmall{.vocab = 31, .d_model = 32, .depth = 2, .heads = 4, .hidden = 48, .seed = 3};

/// Texts whose next token depends on the one before.
NestedTensor chain(uint64_t number) {
  const std::vector<int64_t> lengths{5, 0, 17, 1, 9};
  const Tensor values = empty({32}, DType::int64);
  int64_t token = static_cast<int64_t>(number) % 31;
  for (int64_t i = 0; i < 32; ++i) {
    values.data<int64_t>()[i] = token;
    token = (token * 7 + (i % 3 == 0 ? 1 : 4)) % 31;
  }
  return NestedTensor::from_lengths(values.to(factory_device()), lengths);
}

Tensor loss_of(const DecoderLM& model, uint64_t number, std::optional<DType> dtype) {
  const Autocast scope(dtype);
  return model.loss(chain(number));
}

double loss_after(int64_t steps, std::optional<DType> dtype) {
  const DecoderLM model(kSmall);
  optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  for (int64_t step = 0; step < steps; ++step) {
    loss_of(model, static_cast<uint64_t>(step) % 6, dtype).backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  const NoGrad no_grad;
  double sum = 0;
  for (uint64_t number = 0; number < 6; ++number) sum += loss_of(model, number, dtype).item();
  return sum / 6;
}

TEST(Autocast, TrainsAsFloat32Does) {
  const double single = loss_after(40, {}), half = loss_after(40, DType::bfloat16);
  EXPECT_LT(single, 2.5) << "it learns: log(31) is 3.43";
  EXPECT_NEAR(half / single, 1, 0.005);
  EXPECT_NE(half, single);
}

TEST(Autocast, ParametersAndTheirGradientsStayFloat32) {
  const DecoderLM model(kSmall);
  loss_of(model, 0, DType::bfloat16).backward();
  for (const NamedParameter& parameter : model.named_parameters()) {
    EXPECT_EQ(parameter.tensor.dtype(), DType::float32) << parameter.name;
    EXPECT_EQ(parameter.tensor.grad().dtype(), DType::float32) << parameter.name;
  }
}

/// Cosine of the angle between two lists of tensors, and the length of the second over that of the first.
std::pair<double, double> compared(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<double> x = a[i].to_vector(), y = b[i].to_vector();
    for (size_t k = 0; k < x.size(); ++k) {
      ab += x[k] * y[k];
      aa += x[k] * x[k];
      bb += y[k] * y[k];
    }
  }
  return {ab / std::sqrt(aa * bb), std::sqrt(bb / aa)};
}

TEST(Autocast, DerivativesOfAllModesAreThoseOfFloat64) {
  DecoderLM exact(kSmall), model(kSmall);
  exact.to(DType::float64);
  const auto gradients = [](const DecoderLM& of, std::optional<DType> dtype) {
    return grad(std::vector<Tensor>{loss_of(of, 1, dtype)}, of.parameters(), {.create_graph = true});
  };
  const std::vector<Tensor> expected = gradients(exact, {}), got = gradients(model, DType::bfloat16);
  const auto [gradient_angle, gradient_length] = compared(expected, got);
  EXPECT_GT(gradient_angle, 0.9998);
  EXPECT_NEAR(gradient_length, 1, 0.01);

  // Second order, along the gradient itself: H g.
  const auto curvature = [](const DecoderLM& of, const std::vector<Tensor>& of_gradients, const std::vector<Tensor>& along) {
    Tensor slope;
    for (size_t i = 0; i < along.size(); ++i) {
      const Tensor part = sum(of_gradients[i] * along[i].detach());
      slope = slope.defined() ? slope + part : part;
    }
    return grad(std::vector<Tensor>{slope}, of.parameters(), {.allow_unused = true});
  };
  std::vector<Tensor> along;
  for (const Tensor& gradient : expected) along.push_back(to(gradient.detach(), DType::float32));
  const auto [curve_angle, curve_length] = compared(curvature(exact, expected, expected), curvature(model, got, along));
  EXPECT_GT(curve_angle, 0.995);
  EXPECT_NEAR(curve_length, 1, 0.05);

  // Forward mode: the slope of the loss along the gradient.
  const auto slope = [&](const DecoderLM& of, const std::vector<Tensor>& direction, std::optional<DType> dtype) {
    const autograd::LevelScope scope;
    DecoderLM dual = of;
    size_t next = 0;
    for (Tensor* weight : {&dual.head.weight, &dual.embedding.weight})
      *weight = autograd::make_dual(weight->detach(), direction[next++], scope.level());
    return autograd::tangent(loss_of(dual, 1, dtype), scope.level()).item();
  };
  const std::vector<Tensor> wide{exact.head.weight.detach() * 0.1, exact.embedding.weight.detach() * 0.1};
  const std::vector<Tensor> narrow{to(wide[0], DType::float32), to(wide[1], DType::float32)};
  const double wanted = slope(exact, wide, {}), tangent = slope(model, narrow, DType::bfloat16);
  EXPECT_NEAR(tangent, wanted, 0.02 * std::abs(wanted) + 0.01);
}

TEST(Autocast, OpsComputeAsTheirEntriesSay) {
  const Tensor x = testing::random_tensor({4, 8}, DType::float32), w = testing::random_tensor({8, 8}, DType::float32);
  const Autocast scope;
  EXPECT_EQ(autocast_dtype(), DType::bfloat16);
  EXPECT_EQ(mm(x, w).dtype(), DType::bfloat16);
  EXPECT_EQ(matmul(x, w).dtype(), DType::bfloat16);
  EXPECT_EQ(rms_norm(x).dtype(), DType::bfloat16);
  EXPECT_EQ(softmax(mm(x, w), -1).dtype(), DType::float32);
  EXPECT_EQ(cross_entropy(mm(x, w), zeros({4}, DType::int64)).dtype(), DType::float32);
  EXPECT_EQ((x + mm(x, w)).dtype(), DType::float32);
  EXPECT_EQ(gelu(mm(x, w)).dtype(), DType::bfloat16);
  EXPECT_EQ(mm(to(x, DType::float64), to(w, DType::float64)).dtype(), DType::float64);
  {
    const Autocast off(std::nullopt);
    EXPECT_EQ(mm(x, w).dtype(), DType::float32);
  }
  {
    const Autocast other(DType::float16);
    EXPECT_EQ(mm(x, w).dtype(), DType::float16);
  }
  EXPECT_EQ(mm(x, w).dtype(), DType::bfloat16);
  expect_error([] { Autocast wrong(DType::float32); }, "Autocast: dtype is float32 (expected bfloat16 or float16)");
}

TEST(Autocast, ACheckpointComputesAgainInTheSameDtypes) {
  const Tensor w = testing::random_tensor({8, 8}, DType::float32).requires_grad_(),
               x = testing::random_tensor({4, 8}, DType::float32);
  const auto twice = [](const Tensor& input, const Tensor& weight) { return mm(gelu(mm(input, weight)), weight); };
  const auto gradient = [&](bool again) {
    Tensor y;
    {
      const Autocast scope;
      y = again ? checkpoint(twice, std::tuple(x, w)) : twice(x, w);
    }
    return grad(std::vector<Tensor>{sum(y)}, std::vector<Tensor>{w})[0].to_vector();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

}  // namespace
}  // namespace deckle::nn
