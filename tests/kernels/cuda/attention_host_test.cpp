// What of the CUDA attention can be tested without a GPU: mask intervals, list bounds, which problems are refused and why.
#include <gtest/gtest.h>

#include <random>

#include "deckle/kernels/cuda/attention/forward.h"
#include "deckle/kernels/cuda/attention/portable.h"
#include "deckle/kernels/cuda/attention/work_list.cuh"

namespace deckle {
namespace {

using kernels::AttentionMask;
using kernels::AttentionProblem;
using kernels::kUnboundedWindow;
using namespace kernels::cuda::attention;

bool attends(const AttentionMask& mask, int row, int key, int queries, int keys) {
  const int center = row + (mask.bottom_right ? keys - queries : 0);
  return key >= center - mask.left && key <= center + mask.right;
}

TEST(AttentionIntervals, HoldExactlyTheAttendedKeysAndRows) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 400; ++trial) {
    const int queries = static_cast<int>(random() % 40), keys = static_cast<int>(random() % 40);
    const auto edge = [&] { return random() % 3 == 0 ? kUnboundedWindow : static_cast<int>(random() % 50) - 10; };
    const AttentionMask mask{edge(), edge(), random() % 2 == 0};
    for (int row = 0; row < queries; ++row) {
      const Interval interval = key_interval(mask, row, queries, keys);
      for (int key = 0; key < keys; ++key) {
        ASSERT_EQ(attends(mask, row, key, queries, keys), key >= interval.begin && key < interval.end);
      }
    }
    for (int key = 0; key < keys; ++key) {
      const Interval interval = query_interval(mask, key, queries, keys);
      for (int row = 0; row < queries; ++row) {
        ASSERT_EQ(attends(mask, row, key, queries, keys), row >= interval.begin && row < interval.end);
      }
    }
  }
}

AttentionProblem problem(int head_dim, int value_dim) {
  AttentionProblem p;
  p.sizes.batch = 2;
  p.sizes.heads = p.sizes.kv_heads = 4;
  p.sizes.head_dim = head_dim;
  p.sizes.value_dim = value_dim;
  p.sizes.query_rows = p.sizes.key_rows = 100;
  for (auto* t : {&p.q, &p.k, &p.v, &p.out}) *t = {nullptr, 100 * 4 * 128, 4 * 128, 128};
  return p;
}

TEST(AttentionForwardHost, ServesTheHeadDimsOfTheInstances) {
  for (const auto& [d, dv] : {std::pair{64, 64}, {96, 96}, {128, 128}, {192, 128}, {192, 192}, {256, 256}}) {
    EXPECT_EQ(kernels::cuda::attention_forward_why_not(problem(d, dv)), "");
  }
}

TEST(AttentionForwardHost, SaysWhatItRefusesAndWhatItWouldServe) {
  EXPECT_EQ(kernels::cuda::attention_forward_why_not(problem(80, 80)),
            "D = 80, Dv = 80 (serves 64/64, 96/96, 128/128, 192/128, 192/192, 256/256)");
  AttentionProblem p = problem(128, 128);
  p.sizes.kv_heads = 3;
  EXPECT_EQ(kernels::cuda::attention_forward_why_not(p), "4 heads are not a multiple of 3 kv heads");
  p = problem(128, 128);
  p.k.row_stride = 516;
  EXPECT_EQ(kernels::cuda::attention_forward_why_not(p), "the strides of k are 51200, 516, 128 (serves multiples of 8)");
  p = problem(128, 128);
  p.v.data = reinterpret_cast<void*>(8);
  EXPECT_EQ(kernels::cuda::attention_forward_why_not(p), "v is not aligned to 16 bytes");
  EXPECT_THROW(kernels::cuda::attention_forward(p, nullptr), std::runtime_error);
}

TEST(AttentionForwardHost, AsksForAWorkspaceThatHoldsTheLongestList) {
  const int64_t offsets = 0;
  AttentionProblem p = problem(128, 128);
  p.sizes.query_offsets = p.sizes.key_offsets = &offsets;  // never read on the host
  p.sizes.batch = 7;
  p.sizes.query_rows = 10000;
  // Any lengths: sum of ceil(length / height) is at most rows / height + sequences.
  EXPECT_EQ(max_tiles(p.sizes, Side::queries, 192), 10000 / 192 + 7);
  EXPECT_GE(kernels::cuda::attention_forward_workspace_bytes(p), (10000 / 192 + 7) * 8);
}

}  // namespace
}  // namespace deckle
