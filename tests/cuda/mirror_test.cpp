// Copies on a device of arrays of the host: each is made once, and kept as long as somebody keeps the array.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/mirror.h"
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

int64_t uploads() { return cuda::counters(kGpu).uploads; }

struct Numbers {
  std::vector<int32_t> host = std::vector<int32_t>(1000);
  Tensor touched = ones({1}, DType::float32, kGpu);  // nothing is kept before a GPU was used
  Numbers() { std::iota(host.begin(), host.end(), 7); }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(host)); }
};

TEST(CudaMirrors, AnArrayIsCopiedOnceForAllItsOwners) {
  NEEDS_GPU();
  const Numbers x;
  const int one = 0, two = 0;
  EXPECT_EQ(cuda::mirror_of(x.host.data(), kGpu), nullptr);
  cuda::keep_mirrors(&one, {x.bytes(), {}});
  cuda::keep_mirrors(&two, {x.bytes()});
  const int64_t before = uploads();
  const int32_t* const copy = cuda::mirror_of(x.host.data(), kGpu, 1000);
  std::vector<int32_t> back(1000);
  cuda::copy_bytes(back.data(), {}, copy, kGpu, 4000);
  EXPECT_EQ(back, x.host);
  EXPECT_EQ(cuda::mirror_of(x.host.data(), kGpu), copy);
  EXPECT_EQ(cuda::mirror_of(x.host.data(), kGpu, 1001), nullptr) << "it is shorter";
  cuda::drop_mirrors(&one);
  EXPECT_EQ(cuda::mirror_of(x.host.data(), kGpu), copy);
  EXPECT_EQ(uploads(), before + 1);
  cuda::drop_mirrors(&one);
  cuda::drop_mirrors(&two);
  EXPECT_EQ(cuda::mirror_of(x.host.data(), kGpu), nullptr);
}

TEST(CudaMirrors, ManyThingsAreMadeOfAnArrayOnceEach) {
  NEEDS_GPU();
  const Numbers x;
  const int owner = 0;
  cuda::keep_mirrors(&owner, {x.bytes()});
  int64_t made = 0;
  const auto ask = [&](int64_t key) { return cuda::made_of(x.host.data(), kGpu, {&key, 1}, 64, [&](void*) { ++made; }); };
  std::vector<const void*> first;
  for (int64_t key = 0; key < 100; ++key) first.push_back(ask(key));
  EXPECT_EQ(made, 100);
  for (int64_t key = 0; key < 100; ++key) EXPECT_EQ(ask(key), first[key]) << key;
  EXPECT_EQ(made, 100);
  cuda::drop_mirrors(&owner);
}

// As a segment op on a CPU would: the lock may be held by a thread that the child does not have.
TEST(CudaMirrors, AChildOfForkDoesNotWaitForThem) {
  NEEDS_GPU();
  const Numbers small;
  const std::vector<int32_t> large(1 << 22);
  std::atomic<bool> goes_on{true};
  std::thread other([&] {
    const int owner = 0;
    while (goes_on) {
      cuda::keep_mirrors(&owner, {std::as_bytes(std::span(large))});
      cuda::mirror_of(large.data(), kGpu);
      cuda::drop_mirrors(&owner);
    }
  });
  for (int i = 0; i < 10; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(5);
      const int owner = 0;
      cuda::keep_mirrors(&owner, {small.bytes()});
      cuda::drop_mirrors(&owner);
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  goes_on = false;
  other.join();
}

TEST(CudaMirrors, ARecordingUsesThoseThatAreThere) {
  NEEDS_GPU();
  const Numbers there, new_one;
  const int owner = 0;
  cuda::keep_mirrors(&owner, {there.bytes(), new_one.bytes()});
  const int32_t* const copy = cuda::mirror_of(there.host.data(), kGpu);
  Tensor x = ones({8}, DType::float32, kGpu), y;
  cuda::Graph(kGpu, [&] {
    y = x * 2.0;
    EXPECT_EQ(cuda::mirror_of(there.host.data(), kGpu), copy);
  });
  testing::expect_error([&] { cuda::Graph(kGpu, [&] { cuda::mirror_of(new_one.host.data(), kGpu); }); },
                        "a graph is being recorded, which cannot have an upload");
  cuda::drop_mirrors(&owner);
}

TEST(CudaMirrors, ARecordingRefusesTheFirstOfAShape) {
  NEEDS_GPU();
  const Tensor values = randn({14, 3}).to(kGpu), heads = randn({14, 2, 64}).to(DType::bfloat16).to(kGpu);
  const std::function<Tensor(const Ragged&)> works[] = {
      [&](const Ragged& rows) { return sum(NestedTensor(values, rows), {1}).dense(); },
      [&](const Ragged& rows) {
        const NestedTensor x(heads, rows);
        return attention(x, x, x).values();
      },
  };
  for (const auto& work : works) {
    const Ragged rows = Ragged::from_lengths(std::vector<int64_t>{5, 1, 0, 8});
    testing::expect_error([&] { cuda::Graph(kGpu, [&] { work(rows); }); }, "a graph is being recorded, which cannot have a");
    const Tensor expected = work(rows);
    Tensor result;
    const cuda::Graph graph(kGpu, [&] { result = work(rows); });
    graph.replay();
    testing::expect_equal(result, expected);
  }
}

}  // namespace
}  // namespace deckle
