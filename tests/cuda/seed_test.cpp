// What a graph draws when another thread sets the seed while it is recorded.
#include <functional>
#include <thread>
#include <utility>

#include "deckle/core/cuda/graph.h"
#include "deckle/deckle.h"
#include "tests/cuda/gpu.h"
#include "tests/support/expect.h"

namespace deckle {
namespace {

TEST(CudaGraph, ASeedThatAnotherThreadSetsMeanwhileCountsForTheReplays) {
  NEEDS_GPU();
  for (const bool before_the_first : {true, false}) {
    manual_seed(3);
    rand({5});
    const auto seed_once = [seeded = false]() mutable {
      if (!std::exchange(seeded, true)) std::thread([] { manual_seed(7); }).join();
    };
    Tensor first, second;
    const cuda::Graph graph(kGpu, [&, seed = std::function<void()>(seed_once)] {
      const OnDevice there(kGpu);
      if (before_the_first) seed();
      first = rand({9});
      if (!before_the_first) seed();
      second = rand({6});
    });
    Generator expected(7);  // the other thread has the first part of the stream
    expected.set_state(7, kThreadOffset);
    const OnDevice there(kGpu);
    for (int i = 0; i < 2; ++i) {
      graph.replay();
      testing::expect_equal(first, rand({9}, {.generator = &expected}));
      testing::expect_equal(second, rand({6}, {.generator = &expected}));
    }
    EXPECT_EQ(default_generator().seed(), 7u);
    EXPECT_EQ(default_generator().offset(), expected.offset());
  }
}

}  // namespace
}  // namespace deckle
