#include "deckle/nn/module.h"

#include <set>

#include "deckle/nn/conv.h"
#include "deckle/nn/decoder.h"
#include "deckle/ops/generated/factory.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle::nn {
namespace {

using testing::expect_close;
using testing::expect_equal;
using testing::expect_error;
using testing::random_tensor;

TEST(Module, NamesParametersByTheirPlace) {
  const DecoderLM model({.vocab = 11, .d_model = 8, .depth = 2, .heads = 2, .hidden = 12});
  std::set<std::string> names;
  for (const NamedParameter& parameter : model.named_parameters())
    EXPECT_TRUE(names.insert(parameter.name).second) << parameter.name;
  for (const char* name : {"embedding.weight", "blocks.0.attention_norm.weight", "blocks.1.attention.query.weight",
                           "blocks.1.feed_forward.gate.weight", "norm.weight", "head.weight"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
  EXPECT_EQ(names.size(), 3u + 2 * 9);
  EXPECT_EQ(model.parameter_count(), 2 * 11 * 8 + 8 + 2 * (2 * 8 + 4 * 8 * 8 + 3 * 8 * 12));
}

TEST(Module, StateSharesMemoryAndLoadCopies) {
  const DecoderLM model({.vocab = 5, .d_model = 4, .depth = 1, .heads = 1, .seed = 1});
  const DecoderLM other({.vocab = 5, .d_model = 4, .depth = 1, .heads = 1, .seed = 2});
  EXPECT_NE(model.head.weight.to_vector(), other.head.weight.to_vector());
  other.load_state(model.state());
  for (const auto& [name, tensor] : model.state()) expect_equal(other.state().at(name), tensor);
  EXPECT_EQ(address(model.state().at("head.weight")), address(model.head.weight));
  EXPECT_NE(address(other.head.weight), address(model.head.weight));
  EXPECT_TRUE(other.head.weight.requires_grad());
}

TEST(Module, ACopySharesParameters) {
  const DecoderLM model({.vocab = 5, .d_model = 4, .depth = 1, .heads = 1});
  const DecoderLM copy = model;
  EXPECT_TRUE(copy.blocks[0].attention.out.weight.is_same(model.blocks[0].attention.out.weight));
}

TEST(Module, AStateThatDoesNotFitIsAnErrorAndChangesNothing) {
  const DecoderLM model({.vocab = 5, .d_model = 4, .depth = 1, .heads = 1});
  const std::vector<double> before = model.embedding.weight.to_vector();
  auto state = DecoderLM({.vocab = 5, .d_model = 4, .depth = 1, .heads = 1, .seed = 9}).state();
  auto missing = state;
  missing.erase("norm.weight");
  expect_error([&] { model.load_state(missing); }, "\"norm.weight\" is missing");
  auto more = state;
  more["extra"] = state.at("norm.weight");
  expect_error([&] { model.load_state(more); }, "no parameter \"extra\"");
  auto wrong = state;
  wrong["norm.weight"] = zeros({3});
  expect_error([&] { model.load_state(wrong); }, "\"norm.weight\" is [3] float32, the model's is [4] float32");
  EXPECT_EQ(model.embedding.weight.to_vector(), before);
}

TEST(Linear, IsTheProductWithTheTransposedWeightPlusBias) {
  const Linear layer(5, 3);
  layer.bias.detach().copy_(random_tensor({3}, DType::float32));
  const Tensor x = random_tensor({4, 5}, DType::float32);
  const Tensor y = layer(x);
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 3; ++j) {
      double expected = layer.bias[j].item();
      for (int64_t k = 0; k < 5; ++k) expected += x[i][k].item() * layer.weight[j][k].item();
      EXPECT_NEAR(y[i][j].item(), expected, 1e-5);
    }
  }
  const NestedTensor nested = NestedTensor::from_lengths(x, {1, 0, 3});
  expect_equal(layer(nested).values(), y);
  EXPECT_TRUE(layer(nested).ragged() == nested.ragged());
}

TEST(Norms, GiveUnitRowsTimesTheWeight) {
  const int64_t width = 7;
  const RMSNorm rms(width);
  const LayerNorm layer(width);
  const Tensor x = random_tensor({3, width}, DType::float32);
  for (int64_t i = 0; i < 3; ++i) {
    const std::vector<double> row = x[i].to_vector();
    double mean = 0, square = 0;
    for (const double v : row) mean += v / width, square += v * v / width;
    const std::vector<double> by_rms = rms(x)[i].to_vector(), by_layer = layer(x)[i].to_vector();
    for (size_t j = 0; j < row.size(); ++j) {
      EXPECT_NEAR(by_rms[j], row[j] / std::sqrt(square + 1e-5), 1e-5);
      EXPECT_NEAR(by_layer[j], (row[j] - mean) / std::sqrt(square - mean * mean + 1e-5), 1e-5);
    }
  }
}

TEST(Convolution, GroupsDivideTheChannels) {
  EXPECT_EQ(Conv1d(4, 6, 2, {.groups = 2}).weight.sizes(), (Dims{6, 2, 2}));
  expect_error([] { Conv1d(3, 4, 2, {.groups = 2}); },
               "nn::Conv1d: groups is 2 for 3 channels in and 4 out (expected a number that divides both)");
  expect_error([] { Conv1d(4, 3, 2, {.groups = 2}); }, "groups is 2 for 4 channels in and 3 out");
}

TEST(Convolution, SlidesAlongSequencesRaggedOrNot) {
  const Conv1d layer(4, 6, 3, {.padding = Padding::same, .groups = 2});
  EXPECT_EQ(layer.parameters().size(), 2u);
  const NestedTensor x = NestedTensor::from_lengths(random_tensor({9, 4}, DType::float32), {5, 0, 4});
  const NestedTensor y = layer(x);
  for (int64_t b = 0; b < 3; ++b) {
    if (x[b].size(0) > 0) expect_close(y[b], layer(x[b]), 1e-6, 1e-6);
  }
  expect_equal(layer(x[0]), conv1d(x[0], layer.weight, layer.bias, {.padding = Padding::same, .groups = 2}));
}

TEST(BatchNorm, RemembersWhatItSawInTraining) {
  BatchNorm1d layer(3);
  const Tensor x = random_tensor({40, 3}, DType::float32) * 2.0 + 5.0;
  expect_equal(layer(x), batch_norm(x, layer.weight, layer.bias, {}, {}, 1e-5));
  expect_close(layer.running_mean, x.mean({0}) * 0.1, 1e-6, 1e-6);
  expect_close(layer.running_variance, x.var({0}) * 0.1 + 0.9, 1e-6, 1e-6);
  layer(NestedTensor::from_lengths(x, {30, 0, 10}));
  expect_close(layer.running_mean, x.mean({0}) * 0.19, 1e-6, 1e-6);
  EXPECT_EQ(layer.parameters().size(), 2u);
  layer.eval();
  expect_equal(layer(x), batch_norm(x, layer.weight, layer.bias, layer.running_mean, layer.running_variance, 1e-5));
  expect_close(layer.running_mean, x.mean({0}) * 0.19, 1e-6, 1e-6);
}

TEST(FeedForward, BothKindsActOnRowsAlone) {
  Generator generator(testing::seed());
  const SwiGLU swiglu(6, 10, 1, generator);
  const GeluFeedForward gelu(6, 10, 1, generator);
  const Tensor x = random_tensor({5, 6}, DType::float32);
  const NestedTensor nested = NestedTensor::from_lengths(x, {2, 3});
  expect_equal(swiglu(nested).values(), swiglu(x));
  expect_equal(gelu(nested).values(), gelu(x));
  expect_close(swiglu(x.slice(0, 3, 4)), swiglu(x).slice(0, 3, 4), 1e-6, 1e-6);
  expect_close(gelu(x.slice(0, 3, 4)), gelu(x).slice(0, 3, 4), 1e-6, 1e-6);
}

}  // namespace
}  // namespace deckle::nn
