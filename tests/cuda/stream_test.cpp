// Streams, events, and what a step costs the host.
#include "deckle/core/cuda/stream.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "deckle/core/cuda/counters.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

/// Some milliseconds of a GPU's time, in this thread's stream, on operands that no other stream has.
void keep_busy() {
  if (cuda::fake()) return;
  static std::map<void*, Tensor> operands;
  Tensor& x = operands[cuda::stream(kGpu).handle];
  if (!x.defined()) x = zeros({1536, 1536}, DType::float64, kGpu);
  for (int i = 0; i < 20; ++i) matmul(x, x);
}

TEST(CudaStreams, KeepTheOrderOfMemory) {
  NEEDS_GPU();
  const Stream side = cuda::new_stream(kGpu);
  const Tensor x = randn({1 << 20});
  Tensor y = x.to(kGpu);
  for (int i = 0; i < 20; ++i) {  // back and forth, each reading what the other stream has written
    const cuda::OnStream there(kGpu, side);
    EXPECT_EQ(cuda::stream(kGpu).handle, side.handle);
    keep_busy();
    y = y * 2;
    const cuda::OnStream back(kGpu, Stream{});
    keep_busy();
    y = y * 0.5;
  }
  testing::expect_equal(y, x);
}

TEST(CudaStreams, AFreedBlockIsUsedAgainAfterAllStreamsThatUsedIt) {
  NEEDS_GPU();
  const Stream side = cuda::new_stream(kGpu);
  constexpr int64_t kSize = 1 << 22;
  const Tensor expected = full({kSize}, 3, DType::float32, kGpu);
  for (int i = 0; i < 10; ++i) {
    Tensor result;
    const void* block = nullptr;
    {
      const Tensor x = full({kSize}, 3, DType::float32, kGpu);
      block = address(x);
      const cuda::OnStream there(kGpu, side);
      keep_busy();
      result = x + 0.0;
    }
    {
      const cuda::OnStream there(kGpu, side);
      const Tensor other = full({kSize}, 7, DType::float32, kGpu);
      ASSERT_NE(address(other), block);
    }
    const Tensor next = full({kSize}, 7, DType::float32, kGpu);  // in the stream that took it, after the read
    ASSERT_EQ(address(next), block);
    ASSERT_TRUE(all(result == expected).item<bool>());
  }
}

TEST(CudaStreams, AResultThatAnotherReadsIsWholeWhenItsGraphEnds) {
  NEEDS_GPU();
  const Stream side = cuda::new_stream(kGpu);
  constexpr int64_t kSize = 1 << 22;
  const Tensor x = full({kSize}, 3, DType::float32, kGpu);
  for (int i = 0; i < 10; ++i) {
    Tensor y, read;
    auto graph = std::make_unique<cuda::Graph>(kGpu, [&] { y = x * 2; });
    graph->replay();
    {
      const cuda::OnStream there(kGpu, side);
      keep_busy();
      read = y + 0.0;
    }
    y = Tensor();
    graph.reset();
    std::vector<Tensor> others;
    for (int n = 0; n < 8; ++n) others.push_back(full({kSize}, 7, DType::float32, kGpu));
    ASSERT_TRUE(all(read == 6).item<bool>());
  }
}

TEST(CudaStreams, WhatOneMakesAndAnotherReadsTakesNoMoreMemory) {
  NEEDS_GPU();
  const Stream maker = cuda::new_stream(kGpu);
  const auto pass_on = [&](int i) {
    Tensor made;
    {
      const cuda::OnStream there(kGpu, maker);
      made = full({1 << 18}, i, DType::float32, kGpu);
    }
    const Tensor read = made + 1.0;
    made = Tensor();
    return read;
  };
  for (int i = 0; i < 3; ++i) pass_on(i);
  const int64_t blocks = cuda::counters(kGpu).blocks;
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(all(pass_on(i) == i + 1).item<bool>()) << i;
  EXPECT_LE(cuda::counters(kGpu).blocks - blocks, 4) << "of the comparison's";
}

/// They are in the caches of two streams, and the last reads of them are under way in others.
TEST(CudaStreams, WhatOthersFreedIsWaitedForWhereMemoryIsShort) {
  NEEDS_GPU();
  const Stream maker = cuda::new_stream(kGpu), reader = cuda::new_stream(kGpu);
  empty_cache(kGpu);
  const int64_t before = memory_stats(kGpu).in_use, piece = int64_t{1} << (cuda::fake() ? 27 : 30);
  std::vector<Tensor> held;
  try {
    while (held.size() < 1024) {
      const cuda::OnStream there(kGpu, held.size() % 2 == 0 ? maker : Stream{});
      held.push_back(zeros({piece}, DType::uint8, kGpu));
    }
    FAIL() << "a terabyte on one GPU";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::out_of_memory);
  }
  const auto fitted = static_cast<int64_t>(held.size());
  ASSERT_GT(fitted, 4);
  held.pop_back();  // for what keeps the streams busy
  std::vector<Tensor> sums;
  for (size_t i = 0; i < held.size(); ++i) {
    const cuda::OnStream there(kGpu, i % 2 == 0 ? Stream{} : reader);
    if (i < 2) keep_busy();
    sums.push_back(amax(slice(held[i], 0, 0, 1024)));
  }
  held.clear();
  EXPECT_GE(memory_stats(kGpu).cached / piece, fitted - 1);
  const Tensor large = full({piece * fitted / 2}, 7, DType::uint8, kGpu);  // more than any block that was freed
  for (const Tensor& sum : sums) EXPECT_EQ(sum.item(), 0);
  EXPECT_EQ(slice(large, 0, 0, 1).item(), 7);
  EXPECT_LT(memory_stats(kGpu).in_use - before, piece * fitted);
}

TEST(CudaStreams, KeepTheOrderOfMemoryBetweenReplaysAndOthers) {
  NEEDS_GPU();
  const Stream side = cuda::new_stream(kGpu), other = cuda::new_stream(kGpu);
  const Tensor x = zeros({1 << 12}, DType::float32, kGpu);
  Tensor y;
  const cuda::Graph graph(kGpu, [&] { y = x * 2 + 1; });
  for (int i = 0; i < 5; ++i) {
    {  // an operand is written in one stream,
      const cuda::OnStream there(kGpu, other);
      keep_busy();
      fill_(x, i);
    }
    {  // the replay is in another,
      const cuda::OnStream there(kGpu, side);
      graph.replay();
      keep_busy();
      graph.replay();
    }
    EXPECT_EQ(y[77].item(), 2 * i + 1);  // and its result is read in a third
    {
      const cuda::OnStream there(kGpu, side);
      keep_busy();
      graph.replay();
    }
    fill_(x, -1);  // after the replay has read it
    EXPECT_EQ(y[78].item(), 2 * i + 1);
  }
}

/// Where the operands are one stream's alone, the lengths are what both have.
TEST(CudaStreams, AttentionReadsTheLengthsOfARoomInTheirOrder) {
  NEEDS_GPU();
  const Stream side = cuda::new_stream(kGpu);
  const Tensor values = randn({64, 2, 64}).to(kGpu);
  const std::vector<int64_t> lengths[] = {{40, 24}, {24, 40}};
  for (const DType dtype : {DType::bfloat16, DType::float64}) {
    RaggedCapacity room({.components = 2, .rows = 64}, kGpu);
    NestedTensor x;
    std::vector<Tensor> expected;
    for (const std::vector<int64_t>& of : lengths) {
      room.set_lengths(of);
      const cuda::OnStream there(kGpu, side);
      x = NestedTensor(values.to(dtype), room.ragged());
      expected.push_back(attention(x, x, x).values());
    }
    ASSERT_FALSE(equal(expected[0], expected[1]));
    for (int turn = 0; turn < 6; ++turn) {
      keep_busy();
      room.set_lengths(lengths[turn % 2]);
      Tensor before, after;
      {
        const cuda::OnStream there(kGpu, side);
        before = attention(x, x, x).values();  // after the lengths that were set,
        keep_busy();
        after = attention(x, x, x).values();
      }
      room.set_lengths(lengths[(turn + 1) % 2]);  // and before those that are set next
      const cuda::OnStream there(kGpu, side);
      EXPECT_TRUE(equal(before, expected[static_cast<size_t>(turn % 2)])) << name(dtype) << ", turn " << turn;
      EXPECT_TRUE(equal(after, expected[static_cast<size_t>(turn % 2)])) << name(dtype) << ", turn " << turn;
    }
  }
}

TEST(CudaStreams, WhatAReplayOnlyClearsKeepsItsOrder) {
  NEEDS_GPU();
  const Stream side = cuda::new_stream(kGpu);
  Tensor y;
  const cuda::Graph graph(kGpu, [&] { y = zeros({1 << 12}, DType::float32, kGpu); });
  for (int i = 0; i < 5; ++i) {
    fill_(y, 7);
    {
      const cuda::OnStream there(kGpu, side);
      keep_busy();
      graph.replay();
    }
    EXPECT_EQ(y[77].item(), 0);
  }
}

TEST(CudaStreams, ReplaysInSeveralDrawTheirOwnNumbers) {
  NEEDS_GPU();
  const Stream side = cuda::new_stream(kGpu);
  Generator drawn(5), expected(5);
  Tensor kept;
  const Tensor all = zeros({4, 1000}, DType::float32, kGpu);
  const cuda::Graph graph(kGpu, [&] {
    for (int i = 0; i < 30; ++i) kept = rand({1 << 20}, {}, kGpu);  // scratch, so that replays last
    kept = rand({1000}, {.generator = &drawn}, kGpu);
  });
  for (int64_t i = 0; i < 4; ++i) {
    std::optional<cuda::OnStream> there;
    if (i % 2 == 0) there.emplace(kGpu, side);
    graph.replay();
    copy_(all[i], kept);
  }
  for (int64_t i = 0; i < 4; ++i) testing::expect_equal(all[i], rand({1000}, {.generator = &expected}, kGpu));
}

TEST(CudaStreams, ACopyThatWaitsForItsStreamHoldsUpNoOther) {
  NEEDS_CUDA_KERNELS();
  const Stream side = cuda::new_stream(kGpu);
  const Tensor x = zeros({1536, 1536}, DType::float32, kGpu);
  matmul(x, x);
  synchronize(kGpu);
  cuda::Event end(kGpu);
  std::atomic<bool> waits{false};
  std::thread reader([&] {
    const cuda::OnStream there(kGpu, side);
    Tensor y = x;
    for (int i = 0; i < 2000; ++i) y = matmul(x, x);  // a third of a second
    end.record();
    waits = true;
    y.to_vector<float>();
  });
  while (!waits) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const Tensor up = ones({3}).to(kGpu);
  EXPECT_EQ(up.to_vector<float>(), (std::vector<float>{1, 1, 1}));
  EXPECT_FALSE(end.passed());
  reader.join();
}

TEST(CudaStreams, ThreadsCopyBothWaysAtOnce) {
  NEEDS_GPU();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int thread = 0; thread < 8; ++thread) {  // more than there are pieces for
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 3; ++i) {
        const Tensor x = full({5'000'001}, thread * 10 + i, DType::float32);
        const Tensor back = x.to(kGpu).to(Device());
        if (!all(back == x).item<bool>()) ++wrong;
        if (full({7}, thread, DType::float32).to(kGpu).to_vector<float>() != std::vector<float>(7, static_cast<float>(thread)))
          ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CudaStreams, AGraphIsRecordedInOne) {
  NEEDS_GPU();
  const Stream side = cuda::new_stream(kGpu);
  testing::expect_error([&] { cuda::Graph(kGpu, [&] { const cuda::OnStream there(kGpu, side); }); },
                        "a graph is being recorded, which cannot have another stream (expected it before, or after)");
}

TEST(CudaStreams, OtherThreadsWaitAndEndGraphsWhileOneIsRecorded) {
  NEEDS_GPU();
  const Stream side = cuda::new_stream(kGpu);
  const Tensor x = full({1 << 16}, 3, DType::float32, kGpu);
  Tensor y, z;
  for (const bool in_side : {false, true}) {
    auto former = std::make_unique<cuda::Graph>(kGpu, [&] { y = (x + 1) * 2; });
    {
      std::optional<cuda::OnStream> there;
      if (in_side) there.emplace(kGpu, side);
      keep_busy();
      former->replay();  // still under way when it ends
    }
    std::string said;
    const cuda::Graph graph(kGpu, [&] {
      z = x * 2;
      std::thread([&] {
        try {
          former.reset();
          const Tensor scratch = full({1 << 16}, 7, DType::float32, kGpu);  // perhaps where the former had its own
          synchronize(kGpu);
          empty_cache(kGpu);
        } catch (const Error& error) {
          said = error.what();
        }
      }).join();
      z = z + 1;
    });
    EXPECT_EQ(said, "");
    graph.replay();
    EXPECT_TRUE(all(z == 7).item<bool>());
    EXPECT_TRUE(cuda::fake() || all(y == 8).item<bool>());
  }
}

TEST(CudaStreams, EventsOrderAndMeasure) {
  NEEDS_GPU();
  cuda::Event begin(kGpu), end(kGpu);
  begin.record();
  const Tensor x = randn({1 << 22}, {}, kGpu);
  end.record();
  end.synchronize();
  EXPECT_TRUE(end.passed());
  const double taken = end.milliseconds_since(begin);
  EXPECT_TRUE(cuda::fake() ? taken == 0 : taken > 0) << taken;
  // A stream that shares no memory with another comes after its work by the event alone.
  const Stream side = cuda::new_stream(kGpu);
  cuda::Event after(kGpu);
  for (int i = 0; i < 3; ++i) {
    keep_busy();
    end.record();
    const cuda::OnStream there(kGpu, side);
    end.wait(kGpu);
    after.record();
    after.synchronize();
    EXPECT_TRUE(end.passed());
    EXPECT_GE(after.milliseconds_since(end), 0);
  }
}

TEST(CudaStreams, EventsAreRefusedInRecordingsAndWhenTheyWereMovedAway) {
  NEEDS_GPU();
  cuda::Event event(kGpu), other(kGpu);
  event.record(), other.record();
  const std::function<void()> calls[] = {[&] { event.record(); },
                                         [&] { event.wait(kGpu); },
                                         [&] { event.synchronize(); },
                                         [&] { event.passed(); },
                                         [&] { event.milliseconds_since(other); },
                                         [&] { other.milliseconds_since(event); }};
  for (const std::function<void()>& call : calls)
    testing::expect_error([&] { cuda::Graph(kGpu, call); },
                          "a graph is being recorded, which cannot have an event (expected it before, or after)");
  const cuda::Event kept = std::move(event);
  for (const std::function<void()>& call : calls)
    testing::expect_error(call, "the event was moved away (expected one that marks a place)");
  kept.synchronize();
}

TEST(CudaCounters, PowersOfIntegersWaitOnceForTheirExponents) {
  NEEDS_GPU();
  const Tensor x = tensor<int64_t>({2, -3, 0}).to(kGpu), y = tensor<int64_t>({5, 3, 0}).to(kGpu);
  const int64_t waits = cuda::counters(kGpu).waits;
  const Tensor z = pow(x, y);
  EXPECT_EQ(cuda::counters(kGpu).waits, waits + 1);
  EXPECT_EQ(z.to_vector<int64_t>(), (std::vector<int64_t>{32, -27, 1}));
  testing::expect_error([&] { pow(x, -y); }, "exponent has negative integers (expected 0 or more where both are integers");
  testing::expect_error([&] { cuda::Graph(kGpu, [&] { pow(x, y); }); }, "cannot have the host wait for the GPU");
}

TEST(CudaCounters, CountWhatTheHostDoes) {
  NEEDS_GPU();
  const Tensor x = randn({8});
  const cuda::Counters before = cuda::counters(kGpu);
  const Tensor y = x.to(kGpu);
  EXPECT_EQ(cuda::counters(kGpu).uploads, before.uploads + 1);
  const int64_t waits = cuda::counters(kGpu).waits;
  y.to_vector();
  EXPECT_EQ(cuda::counters(kGpu).waits, waits + 1);
  synchronize(kGpu);
  EXPECT_EQ(cuda::counters(kGpu).waits, waits + 2);
}

TEST(CudaCounters, TheHostCopiesElementsAndNotWhatLiesBetween) {
  NEEDS_GPU();
  const Tensor host = randn({300, 40, 2}), x = host.to(kGpu);
  const auto read = [&](const Tensor& there, const Tensor& here, int64_t bytes) {
    const int64_t before = cuda::counters(kGpu).read;
    EXPECT_EQ(there.to_vector(), here.to_vector());
    EXPECT_EQ(cuda::counters(kGpu).read - before, bytes);
  };
  const auto columns = [](const Tensor& of) { return of.index({slice(), 7, 1}); };
  const auto backwards = [](const Tensor& of) {  // strides of both signs
    return alias(of, {100, 20}, {-3 * 80, 4}, 299 * 80 + 1);
  };
  const auto twelve = [](const Tensor& of) { return alias(of, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3}, Dims(13, 80), 5); };
  read(x, host, 4 * host.numel());
  read(x.T(), host.T(), 4 * host.numel());
  read(columns(x), columns(host), 4 * 300);
  read(backwards(x), backwards(host), 4 * 100 * 20);
  read(x.index({5, slice(2, 9)}), host.index({5, slice(2, 9)}), 4 * 7 * 2);
  read(expand(unsqueeze(columns(x), 0), {50, 300}), expand(unsqueeze(columns(host), 0), {50, 300}), 4 * 300);
  read(expand(x.index({0, 0, 0}), {9}), expand(host.index({0, 0, 0}), {9}), 4);
  read(alias(x, {10, 8}, {1, 2}, 3), alias(host, {10, 8}, {1, 2}, 3), 4 * 24);  // overlapping windows
  read(twelve(x), twelve(host), 4 * 241);                                       // of more dims than kernels take: all of it
  EXPECT_EQ(columns(x > 0).to_vector<bool>(), columns(host > 0).to_vector<bool>());
  EXPECT_EQ(columns(x.to(DType::int64)).to_vector<int64_t>(), columns(host.to(DType::int64)).to_vector<int64_t>());
  testing::expect_error([&] { cuda::Graph(kGpu, [&] { columns(x).to_vector(); }); }, "cannot have the host wait for the GPU");
}

/// A ragged encoder of one layer without attention (capacity_test.cpp has a decoder's): a norm, products, a loss by component.
TEST(CudaCounters, ATrainingStepNeitherWaitsNorTakesMemoryAfterWarmUp) {
  NEEDS_GPU();
  constexpr int64_t kWidth = 32;
  const std::vector<int64_t> lengths = {5, 0, 17, 3};
  nn::Sequential net(nn::Linear(kWidth, 2 * kWidth), nn::GELU(), nn::Linear(2 * kWidth, kWidth));
  net.to(kGpu);
  optim::AdamW optimizer(net.parameters(), {.lr = 0.01});
  const NestedTensor x = NestedTensor::from_lengths(randn({25, kWidth}), lengths).to(kGpu);
  EXPECT_EQ(x.device(), kGpu);
  const Tensor gain = ones({kWidth}, DType::float32, kGpu).requires_grad_(), shift = zeros({kWidth}, DType::float32, kGpu);
  const auto step = [&] {
    const NestedTensor hidden = layer_norm(x, gain, shift);
    const NestedTensor y = NestedTensor(net(hidden.values()), hidden.ragged());
    const Tensor loss = deckle::sum(sum(y * y, {1}).dense());
    net.zero_grad();
    loss.backward();
    optimizer.step();
  };
  for (int i = 0; i < 3; ++i) step();
  synchronize(kGpu);
  const cuda::Counters before = cuda::counters(kGpu);
  for (int i = 0; i < 5; ++i) step();
  const cuda::Counters after = cuda::counters(kGpu);
  EXPECT_EQ(after.waits - before.waits, 0);
  EXPECT_EQ(after.blocks - before.blocks, 0);
  EXPECT_EQ(after.uploads - before.uploads, 0) << "the shape of the batch is on the device";
}

}  // namespace
}  // namespace deckle
