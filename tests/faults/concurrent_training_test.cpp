// Two threads train two models at the same time, and a child of fork trains after its parent has: all give the results of one
// model trained alone. Such a child goes on with its parent's batches.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>

#include "deckle/deckle.h"

namespace deckle {
namespace {

/// Losses of a few steps of a small model; the same for equal seeds.
std::vector<double> train(uint64_t seed) {
  Generator generator(7);
  const NestedTensor batch = NestedTensor::from_lengths(randint(0, 16, {90}, {.generator = &generator}), {40, 1, 0, 49});
  nn::DecoderLM model({.vocab = 16, .d_model = 32, .depth = 2, .heads = 2, .seed = seed});
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  std::vector<double> losses;
  for (int step = 0; step < 5; ++step) {
    const Tensor loss = model.loss(batch);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    losses.push_back(loss.item());
  }
  return losses;
}

TEST(ConcurrentTraining, TwoThreadsTrainTwoModels) {
  set_num_threads(2);
  const std::vector<double> first = train(1), second = train(2);
  ASSERT_NE(first, second);
  for (int round = 0; round < 5; ++round) {
    std::vector<double> got_first, got_second;
    std::thread other([&] { got_second = train(2); });
    got_first = train(1);
    other.join();
    ASSERT_EQ(got_first, first);
    ASSERT_EQ(got_second, second);
  }
}

TEST(ConcurrentTraining, AChildOfForkTrainsAfterItsParentDid) {
  set_num_threads(2);
  const std::vector<double> expected = train(1);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);  // a deadlock is a failure
    _exit(train(1) == expected ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "the child was ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(train(1), expected);
}

using Texts = std::vector<std::vector<int64_t>>;

Texts rest_of(io::Batches& batches) {
  Texts rest;
  for (const NestedTensor& batch : batches) rest.push_back(batch.values().to_vector<int64_t>());
  return rest;
}

TEST(ConcurrentTraining, AChildOfForkGoesOnWithTheBatchesOfItsParent) {
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i) texts.push_back(std::to_string(i));
  const io::TextDataset data = io::TextDataset::from_texts(texts);
  const io::BatchOptions options{.tokens = 8, .seed = 3, .epochs = 2};
  io::Batches all = data.batches(options);
  Texts expected = rest_of(all);
  for (int taken = 0; taken < 8; ++taken, expected.erase(expected.begin())) {
    std::optional<io::Batches> batches(data.batches(options));
    for (int i = 0; i < taken; ++i) batches->next();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(60);  // a deadlock is a failure
      const bool same = rest_of(*batches) == expected;
      batches.reset();
      _exit(same ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0) << taken << " batches taken before";
    EXPECT_EQ(rest_of(*batches), expected);
  }
}

}  // namespace
}  // namespace deckle
