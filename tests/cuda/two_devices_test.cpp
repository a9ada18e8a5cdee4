// Two devices in one process: two GPUs, or two fake ones.
#include "deckle/core/cuda/counters.h"
#include "deckle/core/cuda/driver.h"
#include "deckle/core/cuda/graph.h"
#include "deckle/core/cuda/stream.h"
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

#define NEEDS_TWO() \
  if (cuda::device_count() < 2) GTEST_SKIP() << "needs two GPUs, there are " << cuda::device_count()

const Device kFirst = Device::cuda(0), kSecond = Device::cuda(1);

TEST(TwoDevices, TensorsMoveBetweenThemAndGradientsBack) {
  NEEDS_TWO();
  const Tensor x = randn({33, 7}, {.dtype = DType::float64}), a = x.to(kFirst).detach().requires_grad_();
  const Tensor b = (a * 2).to(kSecond);
  EXPECT_EQ(b.device(), kSecond);
  sum(b * b).backward();
  EXPECT_EQ(a.grad().device(), kFirst);
  testing::expect_close(a.grad(), 8 * x, 1e-14, 1e-14);
}

TEST(TwoDevices, LargeCopiesKeepTheOrderOfBoth) {
  NEEDS_TWO();
  Tensor x = ones({1 << 22}, DType::float32, kFirst);
  for (int i = 0; i < 10; ++i) {
    const Tensor there = (x * 2).to(kSecond);  // what made it comes first, though another device made it
    x = there.to(kFirst);
    x.mul_(0.5);
    there.zero_();  // after it was copied
  }
  EXPECT_EQ(sum(x == 1.0).item<int64_t>(), 1 << 22);
}

TEST(TwoDevices, OperandsOnBothAreRefused) {
  NEEDS_TWO();
  const Tensor x = ones({3}, DType::float32, kFirst), y = ones({3}, DType::float32, kSecond);
  testing::expect_error([&] { x + y; }, "add: operands on cuda:0 and cuda:1 (expected one device: x.to(Device::cuda(0)))");
}

TEST(TwoDevices, AGraphIsWorkOfOne) {
  NEEDS_TWO();
  const Tensor x = ones({3}, DType::float32, kFirst);
  Tensor y = ones({3}, DType::float32, kSecond);
  const char* const refused =
      "a graph of cuda:0 is being recorded, which cannot have work for cuda:1 (expected it before, or after)";
  EXPECT_NE(testing::error_of([&] { cuda::Graph(kFirst, [&] { y * 2.0; }); }).find(refused), std::string::npos);
  EXPECT_NE(testing::error_of([&] { cuda::Graph(kFirst, [&] { y.mul_(2.0); }); }).find(refused), std::string::npos);
  Tensor twice;
  const cuda::Graph graph(kFirst, [&] { twice = x * 2.0; });
  graph.replay();
  EXPECT_EQ(sum(twice).item() + sum(y).item(), 9);
}

TEST(TwoDevices, AStreamIsOneOfItsOwn) {
  NEEDS_TWO();
  const Stream side = cuda::new_stream(kSecond);
  for (const Stream of : {side, cuda::stream(kSecond)})
    testing::expect_error([&] { const cuda::OnStream there(kFirst, of); },
                          "the stream is none of cuda:0's (expected one of new_stream(cuda:0))");
  EXPECT_EQ(cuda::stream(kFirst).handle, cuda::default_stream(kFirst).handle);
  const cuda::OnStream there(kSecond, side), back(kFirst, cuda::stream(kFirst));
  EXPECT_EQ(cuda::stream(kSecond).handle, side.handle);
}

TEST(TwoDevices, MemoryIsCountedOnEach) {
  NEEDS_TWO();
  const int64_t first = memory_stats(kFirst).in_use, second = memory_stats(kSecond).in_use;
  const Tensor x = empty({1 << 20}, DType::uint8, kSecond);
  EXPECT_EQ(memory_stats(kFirst).in_use, first);
  EXPECT_EQ(memory_stats(kSecond).in_use, second + (1 << 20));
}

TEST(TwoDevices, FactoriesAndGuardsNest) {
  NEEDS_TWO();
  const OnDevice there(kSecond);
  EXPECT_EQ(zeros({2}).device(), kSecond);
  {
    const OnDevice first(kFirst);
    EXPECT_EQ(arange(3).device(), kFirst);
  }
  EXPECT_EQ(randn({2}).device(), kSecond);
  const cuda::DeviceGuard guard(kFirst);
  EXPECT_EQ(tril(ones({3, 3})).device(), kSecond) << "operands say where an op runs, not the guard";
}

TEST(TwoDevices, TrainingHasTheSameBitsOnEach) {
  NEEDS_TWO();
  const auto losses = [](Device device) {
    Generator noise(5), start(3);
    Tensor w = (randn({8, 8}, {.generator = &start}) * 0.3).to(device).detach().requires_grad_();
    optim::AdamW optimizer({w}, {.lr = 0.05});
    std::vector<double> result;
    for (int i = 0; i < 10; ++i) {
      const Tensor x = randn({16, 8}, {.generator = &noise}, device);
      const Tensor loss = mean(gelu(mm(x, w)) * dropout(x, 0.2, {.generator = &noise}));
      w.set_grad({});
      loss.backward();
      optimizer.step();
      result.push_back(loss.item());
    }
    return result;
  };
  EXPECT_EQ(losses(kFirst), losses(kSecond));
}

TEST(TwoDevices, EventsOrderWorkAcrossThem) {
  NEEDS_TWO();
  const Tensor x = zeros({1536, 1536}, DType::float64, kFirst);
  matmul(x, x);
  synchronize(kFirst), synchronize(kSecond);
  cuda::Event done(kFirst), after(kSecond);
  for (int i = 0; i < (cuda::fake() ? 0 : 200); ++i) matmul(x, x);
  done.record();
  done.wait(kSecond);  // the second has nothing else to do
  after.record();
  after.synchronize();
  EXPECT_TRUE(done.passed());
}

}  // namespace
}  // namespace deckle
