// Every allocation of a training step, and of saving and loading, fails in turn, those of Deckle's allocator (aligned_alloc) and
// those of operator new: the step ends with Error(out_of_memory) or recovers, nothing leaks, it was taken or left the parameters
// as they were (where operator new fails, those of each group), and later steps give the same results. Memory that other
// libraries take from malloc (OpenBLAS, oneDNN, OpenMP, the C library) is not covered.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <new>
#include <string>

#include "deckle/core/allocator.h"
#include "deckle/deckle.h"
#include "tests/support/temporary_folder.h"

namespace {

// Allocations until the one that fails, of the allocator and of operator new; negative: none does.
std::atomic<int64_t> countdown{-1}, new_countdown{-1};
std::atomic<size_t> least{0};  // bytes of the smallest block of operator new that counts
std::atomic<int64_t> live{0};  // blocks of operator new that were not deleted

bool fails(std::atomic<int64_t>& counter) { return counter.load(std::memory_order_relaxed) >= 0 && counter.fetch_sub(1) == 0; }

void* take(size_t size) {
  void* const block = size >= least && fails(new_countdown) ? nullptr : std::malloc(size + (size == 0));
  if (block == nullptr) throw std::bad_alloc();
  ++live;
  return block;
}

void give(void* block) {
  if (block == nullptr) return;
  --live;
  std::free(block);
}

}  // namespace

void* operator new(size_t size) { return take(size); }
void* operator new[](size_t size) { return take(size); }
void operator delete(void* block) noexcept { give(block); }
void operator delete[](void* block) noexcept { give(block); }
void operator delete(void* block, size_t) noexcept { give(block); }
void operator delete[](void* block, size_t) noexcept { give(block); }

// Deckle's allocator retries once after emptying its cache, so a failure takes two in a row.
extern "C" void* aligned_alloc(size_t alignment, size_t size) {
  thread_local bool again = false;
  if (again || fails(countdown)) {
    again = !again;
    return nullptr;
  }
  void* block = nullptr;
  return posix_memalign(&block, alignment, size) == 0 ? block : nullptr;
}

namespace deckle {
namespace {

/// A small model, its optimizer and a batch, always the same.
struct Decoder {
  NestedTensor batch = NestedTensor::from_lengths(arange(0, 15), {5, 1, 9});
  nn::DecoderLM model{{.vocab = 16, .d_model = 16, .depth = 2, .heads = 2}};
  optim::AdamW optimizer{model.parameters(), {.lr = 1e-2}};

  Tensor loss() const { return model.loss(batch); }
};

/// The same in bfloat16 with float32 parameters.
struct MixedDecoder {
  NestedTensor batch = NestedTensor::from_lengths(arange(0, 15), {5, 1, 9});
  nn::DecoderLM model{{.vocab = 16, .d_model = 16, .depth = 1, .heads = 2}};
  optim::AdamW optimizer{model.parameters(), {.lr = 1e-2}};

  Tensor loss() const {
    const Autocast bfloat16;
    return model.loss(batch);
  }
};

/// Two layers that attend in both directions: with a bias that is trained and dropout of the probabilities, and with a ragged
/// bias.
struct Encoder {
  Generator initial{3};
  std::vector<Tensor> parameters = {parameter({16, 8}), parameter({8, 8}),       parameter({8, 8}),
                                    parameter({8, 8}),  parameter({1, 2, 9, 9}), parameter({8})};
  NestedTensor batch = NestedTensor::from_lengths(arange(0, 15), {5, 1, 9});
  optim::AdamW optimizer{parameters, {.lr = 1e-2}};

  Tensor parameter(Ints sizes) { return randn(sizes, {.generator = &initial}).requires_grad_(); }

  Tensor loss() const {
    Generator dropped(5);  // the same elements in every step
    const auto heads = [](const NestedTensor& x) { return NestedTensor(x.values().view({-1, 2, 4}), x.ragged()); };
    const NestedTensor x = embedding(parameters[0], batch);
    const NestedTensor q = heads(linear(x, parameters[1])), k = heads(linear(x, parameters[2])),
                       v = heads(linear(x, parameters[3]));
    const NestedTensor y = attention(q, k, v, {.bias = parameters[4], .dropout = 0.25, .generator = &dropped});
    const NestedTensor normed = layer_norm(y + dropout(v, 0.25, {.generator = &dropped}));
    const NestedTensor flat(normed.values().reshape({-1, 8}), x.ragged());
    const NestedTensor z = attention(normed, normed, normed, {.ragged_bias = matmul(flat, transpose(flat, 1, 2))});
    return mean(square(sub(z.values().reshape({-1, 8}), parameters[5])));
  }
};

/// Each batch of a data set, which another thread prepares, given to the model itself.
struct Epoch {
  io::TextDataset data = io::TextDataset::from_texts(std::array<std::string, 2>{"a", "bcd"});
  nn::DecoderLM model{{.d_model = 8, .depth = 1, .heads = 2}};
  optim::AdamW optimizer{model.parameters(), {.lr = 1e-2}};

  Tensor loss() const {
    Tensor last;
    for (const NestedTensor& batch : data.batches()) last = mean(square(model(batch).values()));
    return last;
  }
};

template <typename Training>
Tensor step(Training& training) {
  const Tensor loss = training.loss();
  loss.backward();
  training.optimizer.step();
  training.optimizer.zero_grad();
  return loss;
}

template <typename Training>
std::vector<double> steps(Training& training, int count) {
  std::vector<double> losses;
  for (int i = 0; i < count; ++i) losses.push_back(step(training).item());
  return losses;
}

template <typename Training>
std::vector<double> three_steps() {
  Training training;
  return steps(training, 3);
}

/// A step in which allocation `number`, counted from 0, fails; false if the step has fewer. Either it was taken, or nothing of it
/// but gradients, which are dropped: what follows are the steps of a run without failures, whose losses are `expected`.
template <typename Training>
bool comes_to(Training& training, std::atomic<int64_t>& counter, int64_t number, const std::vector<double>& expected) {
  Tensor loss;
  counter = number;
  try {
    loss = step(training);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory) << error.what();
  }
  const bool reached = counter.exchange(-1) < 0;
  if (loss.defined()) {  // nothing failed, or it recovered
    EXPECT_EQ(loss.item(), expected[0]);
  }
  training.optimizer.zero_grad();
  const std::vector<double> next = steps(training, 2);
  const bool taken = loss.defined() || next[0] == expected[1];
  EXPECT_EQ(next, std::vector<double>(expected.begin() + taken, expected.begin() + taken + 2)) << "allocation " << number;
  return reached;
}

template <typename Training>
void expect_each_may_fail(std::atomic<int64_t>& counter) {
  set_num_threads(2);
  const std::vector<double> expected = three_steps<Training>();
  three_steps<Training>();
  empty_cache();
  const int64_t blocks = live, memory = memory_stats().in_use;
  int64_t number = 0;
  for (bool reached = true; reached; ++number) {
    {
      Training training;
      empty_cache();  // so that tensors take fresh memory
      reached = comes_to(training, counter, number, expected);
    }
    empty_cache();
    ASSERT_EQ(live, blocks) << "leaked after the failure of allocation " << number;
    ASSERT_EQ(memory_stats().in_use, memory) << "leaked after the failure of allocation " << number;
    if (number % 16 == 0) {
      ASSERT_EQ(three_steps<Training>(), expected) << "after the failure of allocation " << number;
    }
  }
  std::printf("%ld allocations of a step failed in turn\n", static_cast<long>(number - 1));
  EXPECT_GT(number, 20);
}

TEST(Allocation, EachOfTheAllocatorMayFail) { expect_each_may_fail<Decoder>(countdown); }
TEST(Allocation, EachOfTheAllocatorMayFailInBfloat16) { expect_each_may_fail<MixedDecoder>(countdown); }
TEST(Allocation, EachOfTheAllocatorMayFailInAnEncoder) { expect_each_may_fail<Encoder>(countdown); }
TEST(Allocation, EachOfTheAllocatorMayFailInAnEpoch) { expect_each_may_fail<Epoch>(countdown); }

/// SGD's step, whose velocities begin with it: without dampening, unlike those of later ones.
void expect_first_step_of_sgd_may_fail(std::atomic<int64_t>& counter) {
  struct Trained {
    Tensor x = arange(1.0, 4.0).requires_grad_();
    optim::SGD optimizer{{x}, {.lr = 0.1, .momentum = 0.9, .dampening = 0.5}};

    void differentiate() const {
      optimizer.zero_grad();
      sum(x * x).backward();
    }
    std::vector<double> step() {
      differentiate();
      optimizer.step();
      return x.to_vector();
    }
  };
  Trained other;
  const std::vector<double> start = other.x.to_vector(), first = other.step(), second = other.step();
  int64_t number = 0;
  for (bool reached = true; reached; ++number) {
    Trained trained;
    trained.differentiate();
    empty_cache();
    bool taken = true;
    counter = number;
    try {
      trained.optimizer.step();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::out_of_memory) << error.what();
      taken = false;
    }
    reached = counter.exchange(-1) < 0;
    EXPECT_EQ(trained.x.to_vector(), taken ? first : start) << "allocation " << number;
    EXPECT_EQ(trained.step(), taken ? second : first) << "allocation " << number;
  }
  EXPECT_GT(number, 1);
}

TEST(Allocation, EachOfTheFirstStepOfSgdMayFail) {
  expect_first_step_of_sgd_may_fail(countdown);
  expect_first_step_of_sgd_may_fail(new_countdown);
}

/// Two groups, each of which needs memory: both take the step or neither does, but each by itself where operator new fails.
template <typename Optimizer, typename Options>
void expect_two_groups_step_together(const Options& options, std::atomic<int64_t>& counter) {
  struct Trained {
    // Of different sizes, so that one has no use for the memory that the other gave back.
    std::vector<Tensor> parameters = {ones({2, 3}).requires_grad_(), ones({40, 30}).requires_grad_()};
    Optimizer optimizer;

    explicit Trained(const Options& each) : optimizer({{{parameters[0]}, each}, {{parameters[1]}, each}}) {
      for (const Tensor& x : parameters) x.set_grad(transpose(rand({x.size(1), x.size(0)}), 0, 1));  // not contiguous
    }
  };
  const auto start = [&] {
    manual_seed(7);
    return Trained(options);
  };
  const auto values = [](const Trained& trained, size_t group) { return trained.parameters[group].to_vector(); };
  std::vector<std::vector<double>> expected[2];  // of each group, after each step
  Trained other = start();
  for (int step = 0; step < 3; ++step) {
    for (size_t group = 0; group < 2; ++group) expected[group].push_back(values(other, group));
    other.optimizer.step();
  }
  int64_t number = 0;
  for (bool reached = true; reached; ++number) {
    Trained trained = start();
    empty_cache();
    bool done = true;
    counter = number;
    try {
      trained.optimizer.step();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::out_of_memory) << error.what();
      done = false;
    }
    reached = counter.exchange(-1) < 0;
    size_t taken[2];
    for (size_t group = 0; group < 2; ++group) {
      taken[group] = values(trained, group) == expected[group][0] ? 0 : 1;
      EXPECT_EQ(values(trained, group), expected[group][taken[group]]) << "allocation " << number << ", group " << group;
      if (done || &counter == &countdown) {
        EXPECT_EQ(taken[group], done ? 1u : 0u) << "allocation " << number << ", group " << group;
      }
    }
    trained.optimizer.step();
    for (size_t group = 0; group < 2; ++group)
      EXPECT_EQ(values(trained, group), expected[group][taken[group] + 1]) << "allocation " << number << ", group " << group;
  }
  EXPECT_GT(number, 2);
}

TEST(Allocation, TwoGroupsStepTogether) {
  for (std::atomic<int64_t>* counter : {&countdown, &new_countdown}) {
    expect_two_groups_step_together<optim::SGD>(optim::SGDOptions{.lr = 0.1}, *counter);
    expect_two_groups_step_together<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.5}, *counter);
    expect_two_groups_step_together<optim::AdamW>(optim::AdamWOptions{}, *counter);
    expect_two_groups_step_together<optim::Adam>(optim::AdamOptions{.weight_decay = 0.1}, *counter);
  }
}

TEST(Allocation, EachOfOperatorNewMayFail) { expect_each_may_fail<Decoder>(new_countdown); }
TEST(Allocation, EachOfOperatorNewMayFailInBfloat16) { expect_each_may_fail<MixedDecoder>(new_countdown); }
TEST(Allocation, EachOfOperatorNewMayFailInAnEncoder) { expect_each_may_fail<Encoder>(new_countdown); }
TEST(Allocation, EachOfOperatorNewMayFailInAnEpoch) { expect_each_may_fail<Epoch>(new_countdown); }

/// Each allocation of `call` fails in turn, those of operator new if they are as long as a name of `kLong`: the JSON package in
/// its destructors, and std::filesystem in a folder, end the process where they get none, and ask for less. The call ends in an
/// Error or with success, and leaks nothing.
constexpr size_t kLong = 1000;

void expect_each_long_one_may_fail(const std::function<void()>& call) {
  call();
  empty_cache();
  const int64_t blocks = live, memory = memory_stats().in_use;
  int64_t number = 0;
  least = kLong;
  for (std::atomic<int64_t>* const counter : {&countdown, &new_countdown}) {
    number = 0;
    for (bool reached = true; reached; ++number) {
      empty_cache();
      *counter = number;
      try {
        call();
      } catch (const Error& error) {
        *counter = -1;
        EXPECT_EQ(error.kind(), ErrorKind::out_of_memory) << error.what();
      }
      reached = counter->exchange(-1) < 0 && number < 10'000;
    }
    empty_cache();
    EXPECT_EQ(live, blocks);
    EXPECT_EQ(memory_stats().in_use, memory);
  }
  least = 0;
  EXPECT_GT(number, 5);
}

TEST(Allocation, EachOfACheckpointMayFail) {
  const TemporaryFolder folder;
  const std::string name(kLong, 'n');
  io::Checkpoint checkpoint{.step = 1, .tensors = {{name, arange(0.0, 200.0)}, {"b", arange(0, 6)}}};
  checkpoint.set(name, name);
  io::save_checkpoint(checkpoint, folder.path());
  const std::filesystem::path file = folder.path().native() + std::string(kLong, '/') + "step-1.safetensors";
  expect_each_long_one_may_fail([&] { io::save_checkpoint(checkpoint, folder.path()); });
  expect_each_long_one_may_fail([&] { io::load_checkpoint(file); });
  EXPECT_EQ(folder.entries(), 1) << "temporary files stay";
}

TEST(Allocation, EachOfAFileOfTensorsMayFail) {
  const TemporaryFolder folder;
  const std::string name(kLong, 'n');
  const std::filesystem::path file = folder.path().native() + std::string(kLong, '/') + "file";
  const io::TensorMap tensors = {{name, transpose(zeros({20, 30}), 0, 1)}, {"b", arange(0, 6)}};
  const std::initializer_list<io::TensorMap::value_type> listed = {{name, tensors.at("b")}};
  expect_each_long_one_may_fail([&] { io::save(listed, file); });
  expect_each_long_one_may_fail([&] { io::save(tensors, file); });
  expect_each_long_one_may_fail([&] { io::load(file); });
}

}  // namespace
}  // namespace deckle
