#include "deckle/nn/generate.h"

#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle::nn {
namespace {

using testing::expect_close;
using testing::expect_error;
using testing::random_tensor;
using testing::tensor_of;

TEST(KeyValueCache, GivesTheLogitsOfTheWholeSequence) {
  const DecoderLM model({.vocab = 17, .width = 16, .depth = 3, .heads = 4, .kv_heads = 2});
  constexpr int64_t kLength = 12;
  const Tensor symbols = empty({2, kLength}, DType::int64);
  for (int64_t i = 0; i < 2 * kLength; ++i) symbols.data<int64_t>()[i] = testing::random_integer(0, 16);
  const Tensor whole = model(symbols);
  KeyValueCache cache = model.make_cache(2, kLength);
  int64_t seen = 0;
  for (const int64_t count : {5, 1, 1, 3, 2}) {  // a prompt, steps, and several at once
    const Tensor logits = model.next_logits(slice(symbols, 1, seen, seen + count), cache);
    seen += count;
    EXPECT_EQ(cache.length, seen);
    expect_close(logits, select(whole, 1, seen - 1), 1e-5, 1e-4);
  }
}

TEST(SequenceSampler, AgreesWithRecomputingEverything) {
  const DecoderLM model({.vocab = 9, .width = 16, .depth = 2, .heads = 2});
  Generator generator(5), again(5);
  const std::vector<int64_t> prompt{3, 1, 4};
  SequenceSampler sampler(model, prompt, {.temperature = 0.7, .top_k = 5}, generator);
  std::vector<int64_t> sequence = prompt;
  for (int step = 0; step < 300; ++step) {  // past the first capacity of the cache
    const Tensor symbols = empty({1, static_cast<int64_t>(sequence.size())}, DType::int64);
    std::copy(sequence.begin(), sequence.end(), symbols.data<int64_t>());
    const int64_t expected = sample_symbol(select(select(model(symbols), 0, 0), 0, -1), {.temperature = 0.7, .top_k = 5}, again);
    const int64_t got = sampler.next();
    ASSERT_EQ(got, expected) << "at step " << step;
    sequence.push_back(got);
  }
}

TEST(SampleSymbol, TemperatureZeroAndTopOneTakeTheLikeliest) {
  Generator generator(1);
  const Tensor logits = tensor_of({0.5, 3, -1, 3, 2});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(sample_symbol(logits, {.temperature = 0}, generator), 1);
    EXPECT_EQ(sample_symbol(logits, {.top_k = 1}, generator), 1);
  }
}

TEST(SampleSymbol, FrequenciesFollowTheSoftmax) {
  Generator generator(testing::seed());
  const Tensor logits = tensor_of({0, 1, 2, -3});
  constexpr int kDraws = 40'000;
  const double temperature = 0.8;
  double total = 0;
  for (const double v : {0.0, 1.0, 2.0}) total += std::exp(v / temperature);
  std::vector<int> counts(4);
  for (int i = 0; i < kDraws; ++i) ++counts[static_cast<size_t>(sample_symbol(logits, {.temperature = temperature, .top_k = 3}, generator))];
  EXPECT_EQ(counts[3], 0);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(counts[static_cast<size_t>(i)] / double{kDraws}, std::exp(i / temperature) / total, 0.015);
}

TEST(SampleSymbol, WrongArgumentsAreErrors) {
  Generator generator(1);
  expect_error([&] { sample_symbol(tensor_of({1}), {.temperature = -1}, generator); }, "temperature is -1");
  expect_error([&] { sample_symbol(random_tensor({2, 2}), {}, generator); }, "expected logits [vocab]");
  const DecoderLM model({.vocab = 9, .width = 8, .depth = 1, .heads = 1});
  expect_error([&] { SequenceSampler(model, std::vector<int64_t>{}, {}, generator); }, "at least one symbol");
  expect_error([&] { SequenceSampler(model, std::vector<int64_t>{9}, {}, generator); }, "the vocabulary 9 symbols");
}

}  // namespace
}  // namespace deckle::nn
