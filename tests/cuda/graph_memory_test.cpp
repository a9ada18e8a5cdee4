// What a graph keeps: blocks that its replays read or write serve nobody else while it lives, whoever frees them.
#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "deckle/core/cuda/counters.h"
#include "deckle/core/cuda/graph.h"
#include "deckle/core/cuda/pool.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

constexpr int64_t kSize = 1 << 16;

/// Whether one of some new tensors of `size` floats, all alive at once, lies where `block` was.
bool is_given_out(const void* block, int64_t size = kSize) {
  std::vector<Tensor> others;
  for (int i = 0; i < 20; ++i) others.push_back(full({size}, i, DType::float32, kGpu));
  return std::any_of(others.begin(), others.end(), [&](const Tensor& other) { return address(other) == block; });
}

int64_t memory_held() {
  empty_cache(kGpu);
  return memory_stats(kGpu).in_use + memory_stats(kGpu).cached;
}

TEST(CudaGraphMemory, AnOperandThatIsFreedAfterTheRecordingServesNobodyElse) {
  NEEDS_GPU();
  const int64_t before = memory_held();
  {
    Tensor x = full({kSize}, 3, DType::float32, kGpu), y;
    const void* const block = address(x);
    const cuda::Graph graph(kGpu, [&] { y = x * 2; });
    x = Tensor();
    EXPECT_FALSE(is_given_out(block));
    if (!cuda::fake()) {  // which would call the function again
      graph.replay();
      testing::expect_equal(y, full({kSize}, 6, DType::float32));
    }
  }
  EXPECT_LE(memory_held(), before) << "with the graph its operands go back";
}

TEST(CudaGraphMemory, AnOperandThatTheRecordingFreesServesNobodyElse) {
  NEEDS_GPU();
  const int64_t before = memory_held();
  {
    Tensor x = full({kSize}, 3, DType::float32, kGpu);
    const void* const block = address(x);
    const cuda::Graph graph(kGpu, [&] { x = x * 2; });
    EXPECT_FALSE(is_given_out(block));
    empty_cache(kGpu);
    EXPECT_FALSE(is_given_out(block));
  }
  EXPECT_LE(memory_held(), before);
}

TEST(CudaGraphMemory, AnOperandThatAnotherThreadFreesMeanwhileServesNobodyElse) {
  NEEDS_GPU();
  Tensor x = full({kSize}, 3, DType::float32, kGpu), y;
  const void* const block = address(x);
  const cuda::Graph graph(kGpu, [&] {
    y = x * 2;
    std::thread([&] { x = Tensor(); }).join();
  });
  EXPECT_FALSE(is_given_out(block));
  if (cuda::fake()) return;
  graph.replay();
  testing::expect_equal(y, full({kSize}, 6, DType::float32));
}

TEST(CudaGraphMemory, WhatAnotherGraphMadeIsKeptWhenItIsFreedAndThatEnds) {
  NEEDS_GPU();
  const int64_t before = memory_held();
  for (const bool freed_first : {true, false}) {
    const Tensor x = full({kSize}, 3, DType::float32, kGpu);
    Tensor y, z, third_result;
    auto first = std::make_unique<cuda::Graph>(kGpu, [&] { y = x * 2; });
    first->replay();
    const void* const block = address(y);
    auto second = std::make_unique<cuda::Graph>(kGpu, [&] { z = y + 1; });
    auto third = std::make_unique<cuda::Graph>(kGpu, [&] { third_result = y - 1; });
    if (freed_first) y = Tensor();
    first.reset();
    y = Tensor();
    EXPECT_FALSE(is_given_out(block));
    if (!cuda::fake()) {
      second->replay();
      testing::expect_equal(z, full({kSize}, 7, DType::float32));
    }
    second.reset();
    EXPECT_FALSE(is_given_out(block)) << "the third reads it";
    if (!cuda::fake()) {
      third->replay();
      testing::expect_equal(third_result, full({kSize}, 5, DType::float32));
    }
    third.reset();
  }
  EXPECT_LE(memory_held(), before);
}

TEST(CudaGraphMemory, TheRecordingHasWhatOthersFreed) {
  NEEDS_GPU();
  empty_cache(kGpu);
  const int64_t most = cuda::pool::room(kGpu).available / 10 * 6;
  static_cast<void>(empty({most}, DType::uint8, kGpu));  // as a step before the recording does
  ASSERT_GE(memory_stats(kGpu).cached, most);
  Tensor made;
  const cuda::Graph graph(kGpu, [&] { made = empty({most}, DType::uint8, kGpu); });
  EXPECT_EQ(made.device(), kGpu);
  const int64_t waits = cuda::counters(kGpu).waits;
  testing::expect_error([&] { cuda::Graph(kGpu, [&] { empty({most}, DType::uint8, kGpu); }); }, "in use by tensors");
  EXPECT_EQ(cuda::counters(kGpu).waits, waits + 1) << "for what others may have freed";
}

TEST(CudaGraphMemory, TheRecordingWaitsForWhatOtherStreamsFreed) {
  NEEDS_GPU();
  const Stream side = cuda::new_stream(kGpu);
  empty_cache(kGpu);
  const int64_t piece = cuda::pool::room(kGpu).available / 10 * 3;
  {
    const cuda::OnStream there(kGpu, side);
    const Tensor x = zeros({piece}, DType::uint8, kGpu), y = zeros({piece}, DType::uint8, kGpu);
  }
  ASSERT_GE(memory_stats(kGpu).cached, 2 * piece);
  const int64_t waits = cuda::counters(kGpu).waits;
  Tensor made;
  const cuda::Graph graph(kGpu, [&] {
    made = Tensor();
    made = zeros({2 * piece}, DType::uint8, kGpu);  // in no block that was freed
  });
  EXPECT_GE(cuda::counters(kGpu).waits, waits + 1);
  EXPECT_EQ(memory_stats(kGpu).cached, 0);
  graph.replay();
  EXPECT_EQ(slice(made, 0, 2 * piece - 1, 2 * piece).item(), 0);
}

TEST(CudaGraphMemory, WhatALivingGraphHasIsInUse) {
  NEEDS_GPU();
  constexpr int64_t kBytes = kSize * 4;
  Tensor x = full({kSize}, 3, DType::float32, kGpu), y;
  memory_held();
  const int64_t before = memory_stats(kGpu).in_use, cached = memory_stats(kGpu).cached;
  reset_peak_memory(kGpu);
  {
    const cuda::Graph graph(kGpu, [&] {
      const Tensor scratch = x * 2;
      y = scratch + x;
      if (!cuda::fake()) x = Tensor();  // which calls it again
    });
    EXPECT_EQ(memory_stats(kGpu).in_use, before + 2 * kBytes) << "its scratch, its result, and its operand as before";
    EXPECT_EQ(memory_stats(kGpu).cached, cached);
    EXPECT_GE(memory_stats(kGpu).peak, before + 2 * kBytes);
    reset_peak_memory(kGpu);
    for (int i = 0; i < 2 && !cuda::fake(); ++i) graph.replay();
    EXPECT_EQ(memory_stats(kGpu).peak, before + 2 * kBytes);
    y = Tensor();
    EXPECT_EQ(memory_stats(kGpu).in_use, before + 2 * kBytes);
  }
  x = Tensor();
  EXPECT_EQ(memory_stats(kGpu).in_use, before - kBytes);
  EXPECT_EQ(memory_stats(kGpu).cached - cached, cuda::fake() ? kBytes : 0);
}

TEST(CudaGraphMemory, WhereGeneratorsStandIsNobodysScratch) {
  NEEDS_GPU();
  Generator drawn(5), expected(5);
  const Tensor x = ones({4}, DType::float64, kGpu);
  Tensor kept;
  const cuda::Graph graph(kGpu, [&] {
    const void* block = nullptr;
    {
      const Tensor scratch = x * 3;
      block = address(scratch);
    }
    kept = rand({1000}, {.generator = &drawn}, kGpu);
    const Tensor again = x * 5;
    EXPECT_EQ(address(again), block);
  });
  for (int i = 0; i < 3; ++i) {
    graph.replay();
    testing::expect_equal(kept, rand({1000}, {.generator = &expected}, kGpu));
  }
}

TEST(CudaGraphMemory, AnglesThatALongerTextReplacesAreKept) {
  NEEDS_GPU();
  const nn::Rotary rotary(16);
  const Tensor x = randn({1, 8, 2, 16}).to(kGpu);
  nn::RotaryAngles angles = rotary.angles(x, DType::float32);
  const void *const cosines = address(angles.cosines), *const sines = address(angles.sines);
  constexpr int64_t kTable = 256 * 8;  // elements of a first table
  Tensor y;
  const cuda::Graph graph(kGpu, [&] { y = nn::rotate(x, angles); });
  graph.replay();
  const Tensor expected = y.clone();
  const nn::RotaryAngles longer = rotary.angles(zeros({1, 5000, 2, 16}, DType::float32, kGpu), DType::float32);
  angles = {};
  EXPECT_FALSE(is_given_out(cosines, kTable) || is_given_out(sines, kTable));
  if (cuda::fake()) return;
  graph.replay();
  testing::expect_equal(y, expected);
}

TEST(CudaGraphMemory, CountersOfAdamWStayWhereAGraphHasThem) {
  NEEDS_GPU();
  const Tensor x = ones({3}, DType::float32, kGpu).requires_grad_(), twin = ones({3}, DType::float32, kGpu).requires_grad_();
  optim::AdamW optimizer({x}, {.lr = 0.1}), expected({twin}, {.lr = 0.1});
  for (const Tensor& each : {x, twin}) deckle::sum(each * 2).backward();
  optimizer.count_on_device();
  optimizer.step(), expected.step();
  const optim::State after_one = optimizer.state();
  optim::State saved;
  for (const auto& [name, tensor] : after_one) saved.emplace(name, tensor.clone());
  const cuda::Graph graph(kGpu, [&] { optimizer.step(); });
  graph.replay(), graph.replay();
  EXPECT_EQ(optimizer.state().at("steps").to_vector(), std::vector<double>{3});
  optimizer.state();
  empty_cache(kGpu);
  const int64_t blocks = cuda::counters(kGpu).blocks;
  optimizer.load_state(saved), optimizer.count_on_device();
  EXPECT_EQ(cuda::counters(kGpu).blocks, blocks) << "a replay, other than on a fake device, knows the old ones alone";
  x.detach().copy_(twin.detach());
  graph.replay(), expected.step();
  EXPECT_EQ(optimizer.state().at("steps").to_vector(), std::vector<double>{2});
  testing::expect_close(x.detach(), twin.detach().to(Device()), 1e-6, 1e-6);
}

TEST(CudaGraphMemory, AStateThatAdamWRefusesChangesNothing) {
  NEEDS_GPU();
  const Tensor x = ones({3}, DType::float32, kGpu).requires_grad_(), y = ones({2}, DType::float32, kGpu).requires_grad_();
  optim::AdamW optimizer({x, y}, {.lr = 0.1});
  for (const Tensor& each : {x, y}) deckle::sum(each * 2).backward();
  optimizer.count_on_device();
  optimizer.step();
  optim::State state;
  for (const auto& [name, tensor] : optimizer.state()) state.emplace(name, tensor.clone() * 3);
  state.at("steps") = tensor<int64_t>({4, 5});
  testing::expect_error([&] { optimizer.load_state(state); },
                        "parameters of group 0 have taken 4 and 5 steps (expected as many)");
  const optim::State after = optimizer.state();
  EXPECT_EQ(after.at("steps").to_vector(), (std::vector<double>{1, 1}));
  EXPECT_NE(after.at("average.0").to_vector(), state.at("average.0").to_vector());
  optimizer.step();
  EXPECT_EQ(optimizer.state().at("steps").to_vector(), (std::vector<double>{2, 2}));
}

}  // namespace
}  // namespace deckle
