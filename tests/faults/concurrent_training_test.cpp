// Two threads train two models at the same time, and a child of fork trains after its parent has: all give the results of one
// model trained alone.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

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

}  // namespace
}  // namespace deckle
