// What of the attention backward can be tested without a GPU: which problems are served, which are refused and why, workspace
// sizes.
#include <gtest/gtest.h>

#include "deckle/kernels/cuda/attention/backward.h"

namespace deckle {
namespace {

using kernels::AttentionBackward;
using kernels::AttentionElement;
using kernels::cuda::attention_backward_why_not;
using kernels::cuda::attention_backward_workspace_bytes;

AttentionBackward problem(int head_dim, int value_dim, AttentionElement element = AttentionElement::bf16) {
  static float lse = 0;
  AttentionBackward a;
  auto& p = a.problem;
  p.element = element;
  p.sizes.batch = 2;
  p.sizes.heads = p.sizes.kv_heads = 4;
  p.sizes.head_dim = head_dim;
  p.sizes.value_dim = value_dim;
  p.sizes.query_rows = p.sizes.key_rows = 100;
  for (auto* t : {&p.q, &p.k, &p.v, &p.out, &a.grad_out, &a.grad_q, &a.grad_k, &a.grad_v})
    *t = {nullptr, 100 * 4 * 256, 4 * 256, 256};
  p.lse = &lse;
  p.workspace_bytes = attention_backward_workspace_bytes(a);
  return a;
}

TEST(AttentionBackwardHost, ServesTheHeadDimsOfTheInstances) {
  for (AttentionElement element : {AttentionElement::bf16, AttentionElement::f16}) {
    for (const auto& [d, dv] : {std::pair{64, 64}, {96, 96}, {128, 128}, {192, 128}, {192, 192}, {256, 256}}) {
      EXPECT_EQ(attention_backward_why_not(problem(d, dv, element)), "");
    }
  }
}

TEST(AttentionBackwardHost, RefusesWithTheReason) {
  EXPECT_EQ(attention_backward_why_not(problem(80, 80)),
            "head_dim/value_dim is 80/80 (serves 64/64, 96/96, 128/128, 192/128, 192/192, 256/256)");
  AttentionBackward a = problem(64, 64);
  a.problem.sizes.kv_heads = 3;
  EXPECT_EQ(attention_backward_why_not(a), "4 heads are no multiple of 3 kv heads");
  a = problem(64, 64);
  a.grad_k.row_stride = 1001;
  EXPECT_EQ(attention_backward_why_not(a), "a stride of grad_k is no multiple of 8 elements");
  a = problem(64, 64);
  a.problem.v.data = reinterpret_cast<void*>(0x1008);
  EXPECT_EQ(attention_backward_why_not(a), "v is not aligned to 16 bytes");
  a = problem(64, 64);
  a.problem.lse = nullptr;
  EXPECT_EQ(attention_backward_why_not(a), "lse, which the forward wrote, is missing");
  a = problem(64, 64);
  --a.problem.workspace_bytes;
  EXPECT_NE(attention_backward_why_not(a).find("are needed"), std::string::npos);
}

TEST(AttentionBackwardHost, WorkspaceHoldsTheStatisticsAndUnorderedSums) {
  const AttentionBackward a = problem(128, 128);
  // Two floats a row, rows rounded up to tiles of 64, besides the counters and the list headers.
  const int64_t rows = 2 * 128 * 4;
  EXPECT_GE(attention_backward_workspace_bytes(a), 2 * 4 * rows);
  EXPECT_LE(attention_backward_workspace_bytes(a), 2 * 4 * rows + 1024);
  AttentionBackward unordered = a;
  unordered.deterministic = false;
  EXPECT_GE(attention_backward_workspace_bytes(unordered), attention_backward_workspace_bytes(a) + 4 * rows * 128);
}

}  // namespace
}  // namespace deckle
