#include "deckle/nn/generate.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>

#include "deckle/core/factory_device.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle::nn {
namespace {

using testing::expect_close;
using testing::expect_error;
using testing::random_tensor;
using testing::tensor_of;

/// A model in float64, where the cache and the whole sequence agree to the last digits.
DecoderLM exact_model(const DecoderOptions& options) {
  DecoderLM model(options);
  StateVisitor visitor({.parameter = [](const std::string&, Tensor& parameter) { parameter = parameter.to(DType::float64); }});
  model.visit(visitor);
  return model;
}

std::vector<int64_t> random_tokens(int64_t count, int64_t vocab) {
  std::vector<int64_t> tokens(static_cast<size_t>(count));
  for (int64_t& token : tokens) token = testing::random_integer(0, vocab - 1);
  return tokens;
}

Tensor token_tensor(const std::vector<int64_t>& tokens) {
  const Tensor result = empty({std::ssize(tokens)}, DType::int64);
  std::ranges::copy(tokens, result.data<int64_t>());
  return result.to(factory_device());
}

/// Tokens of several sequences that come and go; the cache must give what the whole sequences do.
TEST(KeyValueCache, GivesTheLogitsOfTheWholeSequences) {
  constexpr int64_t kVocab = 17;
  const DecoderLM model = exact_model({.vocab = kVocab, .d_model = 16, .depth = 3, .heads = 4, .kv_heads = 2});
  KeyValueCache cache = model.make_cache();
  std::vector<std::vector<int64_t>> seen;
  for (int step = 0; step < 60; ++step) {
    if (seen.empty() || (seen.size() < 5 && testing::random_integer(0, 3) == 0)) {
      seen.emplace_back();
      cache.add();
    }
    const auto chosen = testing::random_integer(0, std::ssize(seen) - 1);
    if (testing::random_integer(0, 9) == 0) {
      seen[static_cast<size_t>(chosen)].clear();
      cache.clear(chosen);
    } else if (seen.size() > 1 && testing::random_integer(0, 7) == 0) {
      seen.erase(seen.begin() + chosen);
      cache.remove(chosen);
    }
    std::vector<Tensor> fresh;
    for (std::vector<int64_t>& sequence : seen) {
      const int64_t most = testing::random_integer(0, 5) == 0 ? 70 : 2;  // a prompt, or a step
      const std::vector<int64_t> more = random_tokens(testing::random_integer(1, most), kVocab);
      sequence.insert(sequence.end(), more.begin(), more.end());
      fresh.push_back(token_tensor(more));
    }
    const Tensor logits = model.next_logits(NestedTensor::from_list(fresh), cache);
    ASSERT_EQ(logits.size(0), std::ssize(seen));
    for (size_t b = 0; b < seen.size(); ++b) {
      EXPECT_EQ(cache.lengths()[b], std::ssize(seen[b]));
      const Tensor whole = model(token_tensor(seen[b]).unsqueeze(0));
      expect_close(logits[static_cast<int64_t>(b)], whole[0][-1], 1e-11, 1e-11);
    }
  }
}

TEST(KeyValueCache, ARowOfEachSequenceCostsAConstantNumberOfCopies) {
  KeyValueCache cache(1, 1, 2, DType::float32);
  for (int b = 0; b < 3; ++b) cache.add();
  cache.extend(std::vector<int64_t>{1, 500, 40});
  int moves = 0;
  for (int step = 0; step < 4000; ++step) {
    const void* before = cache.keys(0).values().raw_data();
    cache.extend(std::vector<int64_t>{1, 1, 1});
    moves += cache.keys(0).values().raw_data() != before ? 1 : 0;
    // Never more spare rows than positions: nothing is padded to the longest.
    ASSERT_LE(cache.keys(0).ragged()->rows(), 2 * (cache.lengths()[0] + cache.lengths()[1] + cache.lengths()[2]));
  }
  EXPECT_LE(moves, 6);
}

TEST(KeyValueCache, SequencesComeAndGoWithoutCopies) {
  KeyValueCache cache(1, 1, 2, DType::float32, factory_device());
  for (int b = 0; b < 3; ++b) cache.add();
  cache.extend(std::vector<int64_t>{5, 6, 7});
  const Tensor rows = random_tensor({18, 1, 2}, DType::float32);
  const NestedTensor all = NestedTensor::from_lengths(rows, {5, 6, 7});
  cache.write(0, all, all);
  const void* memory = address(cache.keys(0).values());
  cache.remove(1);
  EXPECT_EQ(cache.lengths(), (std::vector<int64_t>{5, 7}));
  cache.clear(0);
  cache.extend(std::vector<int64_t>{40, 0});  // more than its own room: that of the one which has gone is its too
  EXPECT_EQ(address(cache.keys(0).values()), memory);
  testing::expect_equal(slice(cache.keys(0)[1], 0, 0, 7), slice(rows, 0, 11, 18));
  cache.remove(0);
  testing::expect_equal(slice(cache.values(0)[0], 0, 0, 7), slice(rows, 0, 11, 18));
  cache.remove(0);
  EXPECT_EQ(cache.sequences(), 0);
}

TEST(KeyValueCache, WhatThrowsLeavesTheLengthsAsTheyWere) {
  KeyValueCache cache(1, 1, 2, DType::float32, factory_device());
  for (int b = 0; b < 2; ++b) cache.add();
  expect_error([&] { cache.extend(std::vector<int64_t>{1, -1}); }, "-1 new positions (expected 0..2^40)");
  EXPECT_EQ(cache.lengths(), (std::vector<int64_t>{0, 0}));
  cache.extend(std::vector<int64_t>{2, 3});
  // More than any machine has: the rows that there are stay.
  const NestedTensor rows = NestedTensor::from_lengths(random_tensor({5, 1, 2}, DType::float32), {2, 3});
  cache.write(0, rows, rows);
  EXPECT_THROW(cache.extend(std::vector<int64_t>{1, int64_t{1} << 55}), std::exception);
  EXPECT_THROW(cache.extend(std::vector<int64_t>{INT64_MAX, 0}), std::exception);
  EXPECT_EQ(cache.lengths(), (std::vector<int64_t>{2, 3}));
  testing::expect_equal(slice(cache.keys(0)[1], 0, 0, 3), rows[1]);
  cache.extend(std::vector<int64_t>{1, 1});
  testing::expect_equal(slice(cache.values(0)[1], 0, 0, 3), rows[1]);
}

TEST(KeyValueCache, NextLogitsThatThrowLeaveTheLengthsAsTheyWere) {
  const OnDevice host{Device()};  // a GPU tells of a bad token later
  const DecoderLM model({.vocab = 9, .d_model = 8, .depth = 1, .heads = 1});
  KeyValueCache cache = model.make_cache(), other(1, 1, 8, DType::float64);  // not what the model computes in
  cache.add();
  other.add();
  const auto tokens = [](const std::vector<int64_t>& given) { return NestedTensor::from_list({token_tensor(given)}); };
  EXPECT_THROW(model.next_logits(tokens({1, 2}), other), Error);
  EXPECT_EQ(other.lengths(), (std::vector<int64_t>{0}));
  (void)model.next_logits(tokens({1, 2}), cache);
  expect_error([&] { model.next_logits(tokens({9}), cache); }, "out of range");
  EXPECT_EQ(cache.lengths(), (std::vector<int64_t>{2}));
  expect_close(model.next_logits(tokens({3}), cache)[0], model(token_tensor({1, 2, 3}).unsqueeze(0))[0][-1], 1e-5, 1e-5);
}

TEST(KeyValueCache, WrongArgumentsAreErrors) {
  const DecoderLM model({.vocab = 9, .d_model = 8, .depth = 1, .heads = 1});
  KeyValueCache cache = model.make_cache();
  cache.add();
  expect_error([&] { cache.remove(1); }, "1 sequences, none numbered 1");
  expect_error([&] { cache.extend(std::vector<int64_t>{1, 1}); }, "the cache has 1 sequences, 2 numbers");
  const auto tokens = [](std::initializer_list<int64_t> lengths) {
    return NestedTensor::from_lengths(
        token_tensor(std::vector<int64_t>(static_cast<size_t>(std::reduce(lengths.begin(), lengths.end())))), lengths);
  };
  expect_error([&] { model.next_logits(tokens({2, 1}), cache); }, "tokens of 2 sequences, the cache has 1");
  expect_error([&] { model.next_logits(tokens({0}), cache); }, "no token of sequence 0");
  EXPECT_EQ(cache.lengths()[0], 0);
  cache.extend(std::vector<int64_t>{2});
  const NestedTensor rows = NestedTensor::from_lengths(random_tensor({2, 1, 8}), {2});
  expect_error([&] { cache.write(0, rows, rows); }, "(expected float32 [1, ragged, 1, 8], as the cache has them)");
}

TEST(SequenceSampler, AgreesWithRecomputingEverything) {
  const DecoderLM model({.vocab = 9, .d_model = 16, .depth = 2, .heads = 2});
  Generator again(5);
  const std::vector<int64_t> prompt{3, 1, 4};
  SequenceSampler sampler(model, {.temperature = 0.7, .top_k = 5});
  sampler.add(prompt, 5);
  std::vector<int64_t> sequence = prompt;
  for (int step = 0; step < 300; ++step) {
    const Tensor tokens = token_tensor(sequence).unsqueeze(0);
    const int64_t expected = sample_token(model(tokens)[0][-1], {.temperature = 0.7, .top_k = 5}, again);
    const int64_t got = sampler.next()[0];
    ASSERT_EQ(got, expected) << "at step " << step;
    sequence.push_back(got);
  }
}

TEST(SequenceSampler, EachSequenceGoesOnAsItWouldAlone) {
  constexpr int64_t kVocab = 50;
  const DecoderLM model = exact_model({.vocab = kVocab, .d_model = 16, .depth = 2, .heads = 4, .kv_heads = 1});
  const auto alone = [&](const std::vector<int64_t>& prompt, uint64_t seed) {
    auto sampler = std::make_unique<SequenceSampler>(model);
    sampler->add(prompt, seed);
    return sampler;
  };
  SequenceSampler together(model);
  std::vector<std::unique_ptr<SequenceSampler>> each;
  uint64_t seed = 0;
  const auto prompt = [&] { return random_tokens(testing::random_integer(1, 60), kVocab); };
  for (int step = 0; step < 80; ++step) {
    if (const std::vector<int64_t> first = prompt(); step % 7 == 0) {
      together.add(first, ++seed);
      each.push_back(alone(first, seed));
    }
    if (const std::vector<int64_t> first = prompt(); step % 10 == 9) {
      together.replace(0, first, ++seed);
      each[0] = alone(first, seed);
    }
    if (step % 20 == 19) {
      together.remove(1);
      each.erase(each.begin() + 1);
    }
    std::vector<int64_t> expected;
    for (const auto& sampler : each) expected.push_back(sampler->next()[0]);
    ASSERT_EQ(together.next(), expected) << "at step " << step;
  }
  while (together.size() > 0) together.remove(0);
  EXPECT_TRUE(together.next().empty());
}

TEST(SampleToken, TemperatureZeroAndTopOneTakeTheLikeliest) {
  Generator generator(1);
  const Tensor logits = tensor_of({0.5, 3, -1, 3, 2});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(sample_token(logits, {.temperature = 0}, generator), 1);
    EXPECT_EQ(sample_token(logits, {.top_k = 1}, generator), 1);
  }
}

TEST(SampleToken, FrequenciesFollowTheSoftmax) {
  Generator generator(testing::seed());
  const Tensor logits = tensor_of({0, 1, 2, -3});
  constexpr int kDraws = 40'000;
  const double temperature = 0.8;
  double total = 0;
  for (const double v : {0.0, 1.0, 2.0}) total += std::exp(v / temperature);
  std::vector<int> counts(4);
  for (int i = 0; i < kDraws; ++i)
    ++counts[static_cast<size_t>(sample_token(logits, {.temperature = temperature, .top_k = 3}, generator))];
  EXPECT_EQ(counts[3], 0);
  for (int i = 0; i < 3; ++i)
    EXPECT_NEAR(counts[static_cast<size_t>(i)] / double{kDraws}, std::exp(i / temperature) / total, 0.015);
}

TEST(SampleToken, WrongArgumentsAreErrors) {
  Generator generator(1);
  expect_error([&] { sample_token(tensor_of({1}), {.temperature = -1}, generator); }, "temperature is -1");
  expect_error([&] { sample_token(random_tensor({2, 2}), {}, generator); }, "(expected [vocab])");
  const double infinity = std::numeric_limits<double>::infinity();
  expect_error([&] { sample_token(tensor_of({1, std::nan(""), 2}), {.top_k = 2}, generator); }, "logits hold NaN or infinity");
  expect_error([&] { sample_token(tensor_of({1, infinity}), {}, generator); }, "logits hold NaN or infinity");
  expect_error([&] { sample_token(tensor_of({-infinity, -infinity}), {}, generator); }, "or are all -infinity");
  EXPECT_EQ(sample_token(tensor_of({-infinity, 1, -infinity}), {}, generator), 1);
  const DecoderLM model({.vocab = 9, .d_model = 8, .depth = 1, .heads = 1});
  SequenceSampler sampler(model);
  expect_error([&] { sampler.add(std::vector<int64_t>{}, 1); }, "at least one token");
  expect_error([&] { sampler.add(std::vector<int64_t>{9}, 1); }, "the vocabulary 9 tokens");
  expect_error([&] { sampler.replace(0, std::vector<int64_t>{3}, 1); }, "none numbered 0");
  EXPECT_EQ(sampler.size(), 0);
}

}  // namespace
}  // namespace deckle::nn
