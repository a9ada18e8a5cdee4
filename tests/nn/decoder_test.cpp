#include "deckle/nn/decoder.h"

#include "deckle/attention/compile_mask.h"
#include "deckle/autograd/backward.h"
#include "deckle/autograd/grad_mode.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle::nn {
namespace {

using testing::expect_close;
using testing::expect_error;

constexpr DecoderOptions kSmall{.vocab = 13, .d_model = 16, .depth = 2, .heads = 4, .kv_heads = 2, .hidden = 20, .seed = 3};

NestedTensor random_tokens(const std::vector<int64_t>& lengths, int64_t vocab = kSmall.vocab) {
  int64_t rows = 0;
  for (const int64_t length : lengths) rows += length;
  const Tensor values = empty({rows}, DType::int64);
  for (int64_t i = 0; i < rows; ++i) values.data<int64_t>()[i] = testing::random_integer(0, vocab - 1);
  return NestedTensor::from_lengths(values.to(factory_device()), lengths);
}

TEST(DecoderLM, EveryComponentIsOnItsOwn) {
  const DecoderLM model(kSmall);
  const NestedTensor batch = random_tokens({5, 0, 1, 9});
  const NestedTensor logits = model(batch);
  EXPECT_TRUE(logits.ragged() == batch.ragged());
  for (const int64_t b : {0, 2, 3}) {
    const Tensor alone = model(unsqueeze(batch[b], 0));
    expect_close(logits[b], select(alone, 0, 0), 1e-5, 1e-4);
  }
}

TEST(DecoderLM, LaterTokensChangeNothingBefore) {
  const DecoderLM model(kSmall);
  const NestedTensor batch = random_tokens({8});
  const Tensor before = model(batch).values();
  const Tensor changed = select(batch.values(), 0, 5);
  changed.copy_(remainder(changed + 1, kSmall.vocab));
  const Tensor after = model(batch).values();
  expect_close(slice(after, 0, 0, 5), slice(before, 0, 0, 5), 1e-6, 1e-6);
  EXPECT_NE(slice(after, 0, 5, 8).to_vector(), slice(before, 0, 5, 8).to_vector());
}

TEST(DecoderLM, LossIsTheMeanOverPredictedTokens) {
  const DecoderLM model(kSmall);
  const NestedTensor batch = random_tokens({4, 1, 0, 7, 2});
  EXPECT_EQ(predicted_tokens(batch), 3 + 0 + 0 + 6 + 1);
  double sum = 0;
  const Tensor logits = model(batch).values();
  const std::vector<double> scores = logits.to_vector();
  const std::vector<int64_t> tokens = batch.values().to_vector<int64_t>();
  const auto offsets = batch.ragged()->offsets();
  for (size_t b = 0; b + 1 < offsets.size(); ++b) {
    for (int64_t i = offsets[b]; i + 1 < offsets[b + 1]; ++i) {
      double total = 0;
      for (int64_t v = 0; v < kSmall.vocab; ++v) total += std::exp(scores[static_cast<size_t>(i * kSmall.vocab + v)]);
      sum += std::log(total) - scores[static_cast<size_t>(i * kSmall.vocab + tokens[static_cast<size_t>(i + 1)])];
    }
  }
  EXPECT_NEAR(model.loss(batch).item(), sum / 10, 1e-5);
}

TEST(DecoderLM, TheGradientPredictsTheChangeOfTheLoss) {
  const DecoderLM model(kSmall);
  const NestedTensor batch = random_tokens({9, 3, 14, 2});
  const Tensor loss = model.loss(batch);
  loss.backward();
  double square = 0;
  for (const NamedParameter& parameter : model.named_parameters()) {
    ASSERT_TRUE(parameter.tensor.grad().defined()) << parameter.name;
    for (const double g : parameter.tensor.grad().to_vector()) square += g * g;
  }
  // Central difference along the gradient; float32 losses carry about 1e-7, far below the change of 2 * step * |g|^2.
  const double step = 2e-3 / std::sqrt(square);
  const auto loss_at = [&](double along) {
    const NoGrad no_grad;
    for (const Tensor& p : model.parameters()) add_(p, p.grad() * along);
    return model.loss(batch).item();
  };
  const double up = loss_at(step), down = loss_at(-2 * step);
  EXPECT_NEAR((up - down) / (2 * step * square), 1, 0.02);
}

TEST(DecoderLM, GradientsOfPartsWeighedByTokensAddUpToThatOfTheWhole) {
  const DecoderLM model(kSmall);
  const NestedTensor whole = random_tokens({9, 3, 14, 2, 6});
  const NestedTensor parts[] = {NestedTensor::from_lengths(whole.values().slice(0, 0, 12), {9, 3}),
                                NestedTensor::from_lengths(whole.values().slice(0, 12, 34), {14, 2, 6})};
  model.loss(whole).backward();
  std::vector<Tensor> expected;
  for (const Tensor& parameter : model.parameters()) {
    expected.push_back(parameter.grad());
    parameter.set_grad({});
  }
  for (const NestedTensor& part : parts) {
    (model.loss(part) * (static_cast<double>(predicted_tokens(part)) / static_cast<double>(predicted_tokens(whole)))).backward();
  }
  const std::vector<Tensor> parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) expect_close(parameters[i].grad(), expected[i], 1e-6, 1e-4);
}

TEST(DecoderLM, CompilesItsMaskOnceForAllLayers) {
  DecoderOptions deep = kSmall;
  deep.depth = 12;
  const DecoderLM model(deep);
  const NestedTensor batch = random_tokens({5, 0, 1, 9});
  const auto compiled = [](const auto& call) {
    const int64_t before = compiled_masks();
    call();
    return compiled_masks() - before;
  };
  EXPECT_EQ(compiled([&] { model(batch); }), 1);
  EXPECT_EQ(compiled([&] { model(unsqueeze(batch[3], 0)); }), 1);
  EXPECT_EQ(compiled([&] { model.loss(batch).backward(); }), 1) << "derivatives read the plan of the forward pass";
  KeyValueCache cache = model.make_cache();
  cache.add();
  cache.add();
  EXPECT_EQ(compiled([&] { model.next_logits(random_tokens({3, 7}), cache); }), 1);
  EXPECT_EQ(compiled([&] { model.next_logits(random_tokens({1, 1}), cache); }), 1);
}

TEST(DecoderLM, TheSeedDecidesTheStart) {
  EXPECT_EQ(DecoderLM(kSmall).head.weight.to_vector(), DecoderLM(kSmall).head.weight.to_vector());
  DecoderOptions other = kSmall;
  other.seed = 4;
  EXPECT_NE(DecoderLM(kSmall).head.weight.to_vector(), DecoderLM(other).head.weight.to_vector());
}

TEST(DecoderLM, AFreshModelKnowsNothingInParticular) {
  const DecoderLM model({.vocab = 256, .d_model = 64, .depth = 3, .heads = 2});
  const double loss = model.loss(random_tokens({60, 40, 100}, 256)).item();
  EXPECT_NEAR(loss, std::log(256.0), 0.5);
}

TEST(DecoderLM, WrongOptionsAndInputAreErrors) {
  expect_error([] { DecoderLM({.d_model = 30, .heads = 4}); }, "DecoderOptions: d_model is 30, no multiple of 4 heads");
  expect_error([] { DecoderLM({.d_model = 12, .heads = 4}); }, "the head size is 3");
  expect_error([] { DecoderLM({.d_model = 32, .heads = 4, .kv_heads = 3}); }, "no multiple of 3 key and value heads");
  const DecoderLM model(kSmall);
  expect_error([&] { model.loss(random_tokens({1, 0, 1})); }, "no component has two tokens");
  const NestedTensor unknown = NestedTensor::from_lengths(full({4}, kSmall.vocab, DType::int64), {4});
  expect_error([&] { model.loss(unknown).item(); }, "index 13");  // a GPU says so when it is waited for
}

}  // namespace
}  // namespace deckle::nn
