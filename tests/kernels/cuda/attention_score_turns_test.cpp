// Turns of dS kept in memory for the gradient of a bias that sequences or heads share: no GPU is needed.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "deckle/kernels/cuda/attention/score_gradients.h"
#include "tests/support/seed.h"

namespace deckle {
namespace {

using namespace kernels;
using namespace kernels::cuda::attention;

using Plane = std::pair<int, int>;  // sequence and head

struct Batch {
  AttentionSizes sizes;
  CudaAttentionPlane grad_bias;
  int unit = 1;
};

Batch batch_of(int batch, int heads, int64_t rows, int64_t keys, bool of_sequences, bool of_heads, int unit = 1) {
  Batch b;
  b.sizes.batch = batch;
  b.sizes.heads = b.sizes.kv_heads = heads;
  b.sizes.query_rows = rows;
  b.sizes.key_rows = keys;
  b.grad_bias.sequence_stride = of_sequences;
  b.grad_bias.head_stride = of_heads;
  b.unit = unit;
  return b;
}

// Adds up as the kernels do, names of planes in place of dS.
void expect_sums_in_order(const Batch& b) {
  const ScoreTurns turns(b.sizes, b.grad_bias, b.unit);
  const int64_t head_bytes = score_gradient_bytes(b.sizes);
  ASSERT_EQ(turns.count > 0, b.unit * head_bytes <= kMostScoreBytes);
  if (turns.count == 0) return;
  ASSERT_LE(turns.bytes, kMostScoreBytes);
  ASSERT_EQ(turns.heads % b.unit, 0);
  const std::vector<ScoreTurn> list = turns.list();
  ASSERT_EQ(static_cast<int>(list.size()), turns.count);
  const bool of_sequences = b.grad_bias.sequence_stride != 0, of_heads = b.grad_bias.head_stride != 0;
  using Terms = std::vector<Plane>;
  std::vector<Terms> waiting(turns.sum_bytes / (2 * head_bytes));
  std::map<Plane, Terms> found;
  for (const ScoreTurn& turn : list) {
    ASSERT_TRUE(turn.sequences == 1 || turn.heads == b.sizes.heads);  // planes that follow each other
    ASSERT_LE(turn.sequences * turn.heads * head_bytes, turns.bytes);
    ASSERT_LE(turn.heads, turns.heads);
    std::map<Plane, Terms> terms;  // of the elements that the turn adds to
    for (int sequence = turn.first_sequence; sequence < turn.first_sequence + turn.sequences; ++sequence) {
      for (int head = turn.first_head; head < turn.first_head + turn.heads; ++head)
        terms[{of_sequences ? sequence : 0, of_heads ? head : 0}].emplace_back(sequence, head);
    }
    ASSERT_TRUE((turn.first && turn.last) || terms.size() <= waiting.size());
    size_t i = 0;
    for (const auto& [to, added] : terms) {
      Terms all = turn.first ? Terms() : waiting[i];
      all.insert(all.end(), added.begin(), added.end());
      if (turn.last) {
        ASSERT_TRUE(found.emplace(to, all).second);
      } else {
        waiting[i] = all;
      }
      ++i;
    }
  }
  std::map<Plane, Terms> expected;
  for (int sequence = 0; sequence < b.sizes.batch; ++sequence) {
    for (int head = 0; head < b.sizes.heads; ++head)
      expected[{of_sequences ? sequence : 0, of_heads ? head : 0}].emplace_back(sequence, head);
  }
  ASSERT_EQ(found, expected);
}

TEST(ScoreTurns, AddUpEveryPlaneOnceAndInOrder) {
  std::mt19937_64 random(testing::seed());
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  for (int i = 0; i < 400; ++i) {
    const int unit = 1 + below(3);
    expect_sums_in_order(
        batch_of(1 + below(9), unit * (1 + below(12)), 1 + below(20'000), 1 + below(30'000), below(2) == 1, below(2) == 1, unit));
  }
}

// 2,048 rows and keys are 8 MiB a head: 128 of them fit.
TEST(ScoreTurns, TakeAsManyPlanesAsFitAndAsEqualOnesAsTheyCan) {
  struct Case {
    int batch, heads, sequences, heads_of_turn, count;
  };
  for (const Case& c : {Case{8, 16, 8, 16, 1}, {9, 16, 5, 16, 2}, {24, 16, 8, 16, 3}, {1, 136, 1, 68, 2}, {3, 300, 1, 100, 9}}) {
    const Batch b = batch_of(c.batch, c.heads, 2048, 2048, false, false);
    const ScoreTurns turns(b.sizes, b.grad_bias, 1);
    EXPECT_EQ(turns.sequences, c.sequences);
    EXPECT_EQ(turns.heads, c.heads_of_turn);
    EXPECT_EQ(turns.count, c.count);
    EXPECT_EQ(turns.bytes, (int64_t{8} << 20) * c.sequences * c.heads_of_turn);
    EXPECT_EQ(turns.sum_bytes, c.count > 1 ? int64_t{16} << 20 : 0);
  }
  const Batch none = batch_of(1, 1, 23'171, 23'171, false, false);
  EXPECT_EQ(ScoreTurns(none.sizes, none.grad_bias, 1).count, 0);
}

// Where no turn shares an element with another, nothing waits; of heads, as many sums as a turn has.
TEST(ScoreTurns, KeepSumsOnlyBetweenTurnsOfTheSameElements) {
  const auto sum_bytes = [](int batch, int heads, bool of_sequences, bool of_heads) {
    const Batch b = batch_of(batch, heads, 2048, 2048, of_sequences, of_heads);
    return ScoreTurns(b.sizes, b.grad_bias, 1).sum_bytes;
  };
  EXPECT_EQ(sum_bytes(24, 16, true, false), 0);
  EXPECT_EQ(sum_bytes(24, 16, false, true), int64_t{16 * 16} << 20);
  EXPECT_EQ(sum_bytes(2, 256, false, true), int64_t{128 * 16} << 20);
  EXPECT_EQ(sum_bytes(2, 256, true, false), int64_t{16} << 20);
}

}  // namespace
}  // namespace deckle
