// What of the CUDA attention can be tested without a GPU: mask intervals, list bounds, workspaces, which problems are refused and
// why.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "deckle/kernels/args/attention_limits.h"
#include "deckle/kernels/cuda/attention/backward.h"
#include "deckle/kernels/cuda/attention/backward_pass.h"
#include "deckle/kernels/cuda/attention/backward_plan.h"
#include "deckle/kernels/cuda/attention/checks.h"
#include "deckle/kernels/cuda/attention/forward.h"
#include "deckle/kernels/cuda/attention/forward_lists.h"
#include "deckle/kernels/cuda/attention/plan.h"
#include "deckle/kernels/cuda/attention/portable.h"
#include "deckle/kernels/cuda/attention/portable_decode.h"
#include "deckle/kernels/cuda/attention/portable_planes.h"
#include "deckle/kernels/cuda/attention/ragged_bias.h"
#include "deckle/kernels/cuda/attention/second_backward.h"
#include "deckle/kernels/cuda/attention/split_backward.h"
#include "deckle/kernels/cuda/attention/split_forward.h"
#include "deckle/kernels/cuda/attention/work_list.cuh"
#include "deckle/kernels/cuda/tile/tensor_map.h"
#include "tests/support/seed.h"

namespace deckle {

namespace kernels::cuda::attention::portable {
int forward_shared_bytes(const CudaAttentionProblem& problem);
int backward_shared_bytes(const CudaAttentionProblem& problem);
}  // namespace kernels::cuda::attention::portable

namespace {

using kernels::AttentionBackward;
using kernels::AttentionElement;
using kernels::AttentionTensor;
using kernels::AttentionWindow;
using kernels::CudaAttentionProblem;
using kernels::kUnboundedWindow;
using namespace kernels::cuda;
using namespace kernels::cuda::attention;

bool attends(const AttentionWindow& mask, int row, int key, int queries, int keys) {
  const int64_t center = row + (mask.bottom_right ? keys - queries : 0);
  return key >= center - mask.left && key <= center + mask.right;
}

TEST(AttentionIntervals, HoldExactlyTheAttendedKeysAndRows) {
  std::mt19937_64 random(testing::seed());
  for (int trial = 0; trial < 400; ++trial) {
    const int queries = static_cast<int>(random() % 40), keys = static_cast<int>(random() % 40);
    const int far[] = {kUnboundedWindow, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()};
    const auto edge = [&] { return random() % 3 == 0 ? far[random() % 3] : static_cast<int>(random() % 50) - 10; };
    const AttentionWindow given{edge(), edge(), random() % 2 == 0}, mask = bound_window(given);
    const LiveRows live = live_rows(band_of(mask, queries, keys), queries, keys);
    for (int row = 0; row < queries; ++row) {
      bool lives = false;
      for (int key = 0; key < keys; ++key) lives |= attends(given, row, key, queries, keys);
      ASSERT_EQ(lives, row >= live.first && row < live.end());
    }
    for (int row = 0; row < queries; ++row) {
      const Interval interval = key_interval(mask, row, queries, keys);
      for (int key = 0; key < keys; ++key) {
        ASSERT_EQ(attends(given, row, key, queries, keys), key >= interval.begin && key < interval.end);
      }
    }
    for (int key = 0; key < keys; ++key) {
      const Interval interval = query_interval(mask, key, queries, keys);
      for (int row = 0; row < queries; ++row) {
        ASSERT_EQ(attends(given, row, key, queries, keys), row >= interval.begin && row < interval.end);
      }
    }
  }
}

// A backward of 2 x 100 rows and 4 heads whose tensors all lie at one address: nothing here reads them.
AttentionBackward problem(int head_dim, int value_dim, AttentionElement element = AttentionElement::bf16) {
  alignas(256) static unsigned char memory[256];
  AttentionBackward a;
  CudaAttentionProblem& p = a.problem;
  p.element = element;
  p.sizes.batch = 2;
  p.sizes.heads = p.sizes.kv_heads = 4;
  p.sizes.head_dim = head_dim;
  p.sizes.value_dim = value_dim;
  p.sizes.query_rows = p.sizes.key_rows = 100;
  for (AttentionTensor* t : {&p.q, &p.k, &p.v, &p.out, &a.grad_out, &a.grad_q, &a.grad_k, &a.grad_v})
    *t = {memory, 100 * 4 * 256, 4 * 256, 256};
  p.lse = reinterpret_cast<float*>(memory);
  return a;
}

TEST(AttentionHost, ServesTheHeadDimsOfTheInstancesAndSmallerOnes) {
  for (const AttentionElement element : {AttentionElement::bf16, AttentionElement::f16}) {
    for (const auto& [d, dv] : {std::pair{64, 64}, {128, 128}, {192, 128}, {192, 192}, {256, 256}}) {
      const AttentionBackward a = problem(d, dv, element);
      EXPECT_EQ(attention_forward_why_not(a.problem), "");
      EXPECT_EQ(attention_backward_why_not(a), "");
    }
  }
  // Smaller ones run in the next, if they have as many panels of 64 columns.
  for (const auto& [d, dv] : {std::pair{8, 8}, {40, 64}, {80, 80}, {96, 96}, {104, 128}, {72, 120}, {136, 96}, {200, 256}}) {
    const AttentionBackward a = problem(d, dv);
    EXPECT_EQ(attention_forward_why_not(a.problem), "") << d << "/" << dv;
    EXPECT_EQ(attention_backward_why_not(a), "") << d << "/" << dv;
  }
  for (const auto& [d, dv] : {std::pair{128, 64}, {84, 84}, {264, 264}, {0, 0}}) {
    const AttentionBackward other = problem(d, dv);
    const auto reason = [&](const char* forward_alone) {
      return "D = " + std::to_string(d) + ", Dv = " + std::to_string(dv) + " (serves multiples of 8 up to 64/64, " +
             forward_alone + "128/128, 192/128, 192/192, 256/256 with as many panels of 64 columns)";
    };
    EXPECT_EQ(attention_forward_why_not(other.problem), reason("96/96, "));
    EXPECT_EQ(attention_backward_why_not(other), reason(""));
  }
}

// What all paths refuse, they refuse in the same words.
void expect_refused(const std::function<void(AttentionBackward&)>& spoil, const std::string& reason, bool by_forward = true) {
  AttentionBackward a = problem(128, 128);
  spoil(a);
  if (by_forward) {
    EXPECT_EQ(attention_forward_why_not(a.problem), reason);
    EXPECT_THROW(attention_forward(a.problem, nullptr), std::runtime_error);
  }
  EXPECT_EQ(attention_backward_why_not(a), reason);
  EXPECT_THROW(attention_backward(a, nullptr), std::runtime_error);
  if (by_forward) {
    EXPECT_EQ(portable_attention_forward_why_not(a.problem), reason);
  }
  EXPECT_EQ(portable_attention_backward_why_not(a), reason);
}

TEST(AttentionHost, SaysWhatIsRefusedAndWhatWouldBeServed) {
  expect_refused([](auto& a) { a.problem.sizes.kv_heads = 3; }, "4 heads are not a multiple of 3 kv heads");
  expect_refused([](auto& a) { a.problem.sizes.kv_heads = 0; }, "4 heads are not a multiple of 0 kv heads");
  expect_refused([](auto& a) { a.problem.sizes.heads = a.problem.sizes.kv_heads = 65536; }, "65536 heads (serves up to 65535)");
  expect_refused([](auto& a) { a.problem.sizes.batch = -1; }, "batch is -1 (serves 0 and more)");
  expect_refused([](auto& a) { a.problem.sizes.key_rows = int64_t{1} << 30; }, "1073741824 rows (serves fewer than 2^30)");
  static const int64_t offset = 0;
  expect_refused([](auto& a) { a.problem.sizes.key_offsets = &offset; }, "offsets are given for one of queries and keys only");
  expect_refused(
      [](auto& a) { a.problem.sizes.key_lengths = &offset; },
      "key lengths are given without offsets (serves them for ragged batches; a dense one is a ragged one of equal offsets)");
  expect_refused([](auto& a) { a.problem.v.data = reinterpret_cast<void*>(8); }, "v is not aligned to 16 bytes");
  expect_refused([](auto& a) { a.problem.q.data = nullptr; }, "q is null");
  expect_refused([](auto& a) { a.grad_k.data = nullptr; }, "grad_k is null", false);
  expect_refused([](auto& a) { a.problem.lse = nullptr; }, "lse, which the forward wrote, is null", false);
}

TEST(AttentionHost, FeaturesOfScoresAreServedByForwardsThePortableBackwardAndInPartByHoppers) {
  static const float number = 0;
  alignas(16) static uint16_t bias[100 * 104];
  static const int32_t bounds[2] = {};
  const auto expect = [](const std::function<void(AttentionBackward&)>& spoil, const std::string& forward,
                         const std::string& backward, const std::string& portable, int dim = 128) {
    AttentionBackward a = problem(dim, dim);
    spoil(a);
    EXPECT_EQ(attention_forward_why_not(a.problem), forward);
    EXPECT_EQ(attention_backward_why_not(a), backward);
    EXPECT_EQ(portable_attention_forward_why_not(a.problem), portable);
    EXPECT_EQ(portable_attention_backward_why_not(a), portable);
  };
  expect([](auto& a) { a.problem.soft_cap = 30; }, "", "", "");
  expect([](auto& a) { a.problem.soft_cap = 1.0f / 64; }, "", "", "");
  expect([](auto& a) { a.problem.soft_cap = 1.0f / 65; }, "", "the soft cap is 0.015385 (serves 0, none, and from 0.015625 on)",
         "");
  expect([](auto& a) { a.problem.slopes = &number; }, "", "", "");
  expect([](auto& a) { a.problem.dropout.threshold = 26; }, "", "", "");
  expect([](auto& a) { a.problem.table = &number; }, "", "a table is given (serves none)", "");
  const auto with_bias = [](int columns) {
    return [columns](auto& a) {
      a.problem.bias = {.data = bias, .row_stride = columns, .column_stride = 1, .rows = 100, .columns = columns};
    };
  };
  expect(with_bias(104), "", "", "");
  expect(with_bias(100), "the bias is broadcast over keys, or, ragged, over rows, or has rows that are no multiples of 16 bytes",
         "the bias is broadcast over rows or keys, or has rows that are no multiples of 16 bytes", "");
  // One row for all queries, of one element or expanded: the copy engine has no strides of 0.
  for (const int rows : {1, 100}) {
    const auto expanded = [rows](auto& a) { a.problem.bias = {.data = bias, .column_stride = 1, .rows = rows, .columns = 104}; };
    expect(expanded, "", "the bias is broadcast over rows or keys, or has rows that are no multiples of 16 bytes", "");
  }
  // A ragged batch reads copies, of any rows.
  static const int64_t offsets[] = {0, 60, 100};
  const auto ragged = [](auto& a) { a.problem.sizes.query_offsets = a.problem.sizes.key_offsets = offsets; };
  const auto with_planes = [&](int64_t row_stride, int64_t head_stride) {
    return [=](auto& a) {
      ragged(a);
      a.problem.bias = {.data = bias, .head_stride = head_stride, .row_stride = row_stride, .column_stride = 1};
      a.problem.bias.offsets = offsets;
      a.problem.bias.elements = 5200;
      a.grad_bias = a.problem.bias;
    };
  };
  expect(with_planes(1, 0), "", "", "");
  expect(with_planes(1, 1), "", "", "");
  expect(with_planes(0, 0),
         "the bias is broadcast over keys, or, ragged, over rows, or has rows that are no multiples of 16 bytes",
         "the bias of the ragged batch is broadcast over rows or keys (serves one of each row and key)", "");
  for (const int columns : {100, 104}) {
    const auto dense_planes = [&](auto& a) {
      ragged(a);
      with_bias(columns)(a);
      a.grad_bias = a.problem.bias;
    };
    expect(dense_planes,
           columns == 104
               ? ""
               : "the bias is broadcast over keys, or, ragged, over rows, or has rows that are no multiples of 16 bytes",
           "", "");
  }
  const auto with_sum = [&](auto& a) {
    with_bias(104)(a);
    a.grad_bias = a.problem.bias;
  };
  expect(with_sum, "", "", "");
  const auto with_dropout = [&](auto& a) {
    with_bias(104)(a);
    a.problem.dropout.threshold = 26;
  };
  expect(with_dropout, "", "there are both a bias and dropout (serves one of them)", "");
  const auto with_slopes = [&](auto& a) {
    with_bias(104)(a);
    a.problem.slopes = &number;
  };
  expect(with_slopes, "", "there is a bias beside a soft cap or slopes (serves it with neither)", "");
  const auto with_ranges = [](auto& a) { a.problem.ranges = {bounds, 1}; };
  expect(with_ranges, "", "", "");
  expect(
      [&](auto& a) {
        with_ranges(a);
        a.problem.sinks = &number;
      },
      "", "", "");
  expect(
      [&](auto& a) {
        with_ranges(a);
        with_bias(104)(a);
      },
      "", "there is a bias beside a mask of ranges or bytes (serves one of them)", "");
  const auto longer = [&](int64_t rows) {
    return [&, rows](auto& a) {
      with_ranges(a);
      a.problem.sizes.batch = 1;
      a.problem.sizes.query_rows = a.problem.sizes.key_rows = rows;
    };
  };
  expect(longer(1 << 18), "", "", "");
  expect(longer(1 << 20), "lists of the tiles that the mask leaves would take 682 MiB (serves up to 256)",
         "lists of the tiles that the mask leaves would take 1024 MiB (serves up to 256)", "");
  const std::string of_heads = "the mask of bytes differs from head to head (serves one for all heads)";
  expect([](auto& a) { a.problem.forbidden = {.data = bias, .head_stride = 100}; }, of_heads, of_heads, "");
  const auto from_column_8 = [](auto& a) { a.problem.dropout = {.threshold = 26, .first_row = 32, .first_column = 8}; };
  const std::string multiples = "the first column of dropout is 8 (serves multiples of 16)";
  expect(from_column_8, multiples, multiples, multiples);
  expect(
      [](auto& a) { a.problem.soft_cap = 30; },
      "with soft cap, slopes, bias, table, dropout or a mask of ranges or bytes D = 192, Dv = 192 (serves multiples of 8 up to "
      "64/64, 128/128 with as many panels of 64 columns)",
      "D = 192, Dv = 192 (serves multiples of 8 up to 64/64, 128/128, 192/128, 192/192, 256/256 with as many panels of 64 "
      "columns)",
      "", 192);
  for (const auto& [spoil, reason] : std::vector<std::pair<std::function<void(AttentionBackward&)>, std::string>>{
           {[](auto& a) { a.problem.soft_cap = -1; }, "the soft cap is -1.000000 (serves 0, none, and up to 4096)"},
           {[](auto& a) { a.problem.soft_cap = 4097; }, "the soft cap is 4097.000000 (serves 0, none, and up to 4096)"},
           {[](auto& a) {
              a.problem.ranges = {bounds, 0};
            },
            "rows have 0 ranges of keys (serves 1 and more)"},
           {[](auto& a) { a.problem.bias = {.data = bias, .head_stride = -1}; },
            "a stride of the bias is -1 (serves 0 and more)"},
           {[](auto& a) { a.problem.forbidden = {.data = bias, .offsets = reinterpret_cast<int64_t*>(bias)}; },
            "the mask is ragged, the batch is not"}}) {
    expect(spoil, reason, reason, reason);
  }
}

TEST(AttentionHost, RefusesStridesThatTheCopyEngineDoesNotKnow) {
  const std::string serves = " (serves positive multiples of 8 where the dim has more than one element)";
  for (const int64_t stride : {0, -1024, 516}) {
    const std::string given = std::to_string(stride) + serves;
    expect_refused([&](auto& a) { a.problem.k.batch_stride = stride; }, "the batch stride of k is " + given);
    expect_refused([&](auto& a) { a.problem.k.row_stride = stride; }, "the row stride of k is " + given);
    expect_refused([&](auto& a) { a.problem.out.head_stride = stride; }, "the head stride of out is " + given);
    expect_refused(
        [&](auto& a) {
          a.grad_out = {a.grad_out.data, stride, stride, stride};
        },
        "the batch stride of grad_out is " + given, false);
  }
}

TEST(AttentionHost, CountsTilesIn31Bits) {
  AttentionBackward a = problem(128, 128);
  a.problem.sizes.query_rows = a.problem.sizes.key_rows = 1;
  a.problem.sizes.heads = a.problem.sizes.kv_heads = 1024;
  for (const int batch : {1 << 20, 1 << 21}) {
    a.problem.sizes.batch = batch;
    for (const std::string& reason : {attention_forward_why_not(a.problem), attention_backward_why_not(a)})
      EXPECT_EQ(reason.find("more than 2^31 tiles") != std::string::npos, batch == 1 << 21) << reason;
  }
}

// The kernels of float32, of forward mode and of second order: rows of either side.
TEST(AttentionHost, CountsTilesOfPairsIn31Bits) {
  AttentionBackward a = problem(128, 128);
  CudaAttentionProblem& p = a.problem;
  p.sizes.heads = p.sizes.kv_heads = 1024;
  for (const auto& [batch, rows, keys] : {std::tuple(1 << 20, 1, 1), {1 << 21, 1, 1}, {1 << 20, 129, 1}, {1 << 20, 1, 129}}) {
    p.sizes.batch = batch, p.sizes.query_rows = rows, p.sizes.key_rows = keys;
    AttentionSecond second;
    second.problem = p;
    second.out = p.out, second.lse_tangent = p.lse, second.grad_out = a.grad_out;
    const bool many_rows = batch == 1 << 21 || rows > 128, many_keys = batch == 1 << 21 || keys > 128;
    const auto refused = [](const std::string& reason) { return reason == "more than 2^31 tiles of 128 rows and a head"; };
    EXPECT_EQ(refused(split_attention_forward_why_not(p)), many_rows);
    EXPECT_EQ(refused(tangent_attention_why_not({p})), many_rows);
    EXPECT_EQ(refused(split_attention_backward_why_not(a)), many_rows || many_keys);
    EXPECT_EQ(refused(second_attention_why_not(second)), many_rows || many_keys);
  }
}

TEST(AttentionHost, DimsOfOneElementHaveAnyStrideAndEmptyTensorsNoMemory) {
  AttentionBackward a = problem(128, 128);
  a.problem.sizes.batch = a.problem.sizes.heads = a.problem.sizes.kv_heads = 1;
  for (AttentionTensor* t : {&a.problem.q, &a.problem.k, &a.grad_v}) t->batch_stride = t->head_stride = 0;
  EXPECT_EQ(attention_backward_why_not(a), "");
  a.problem.sizes.key_rows = 0;
  for (AttentionTensor* t : {&a.problem.k, &a.problem.v, &a.grad_k, &a.grad_v}) *t = {};
  EXPECT_EQ(attention_backward_why_not(a), "");
}

TEST(AttentionHost, LaunchesOnlyWithAWorkspace) {
  const auto thrown = [](const AttentionBackward& a) -> std::string {
    try {
      attention_backward(a, nullptr);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return {};
  };
  AttentionBackward a = problem(64, 64);
  const int64_t needed = attention_backward_workspace_bytes(a);
  a.problem.workspace_bytes = needed - 1;
  EXPECT_EQ(thrown(a), "attention_backward: a workspace of " + std::to_string(needed - 1) + " bytes was given, " +
                           std::to_string(needed) + " are needed");
  a.problem.workspace_bytes = needed;
  EXPECT_EQ(thrown(a), "attention_backward: the workspace is null");
  a.problem.workspace = reinterpret_cast<void*>(0x1010);
  EXPECT_EQ(thrown(a), "attention_backward: the workspace is not aligned to 256 bytes");
}

TEST(AttentionHost, AsksForAWorkspaceThatHoldsTheLongestList) {
  const int64_t offsets = 0;
  CudaAttentionProblem p = problem(128, 128).problem;
  p.sizes.query_offsets = p.sizes.key_offsets = &offsets;  // never read on the host
  p.sizes.batch = 7;
  p.sizes.query_rows = 10000;
  // Any lengths: sum of ceil(length / height) is at most rows / height + sequences.
  EXPECT_EQ(max_tiles(p.sizes, Side::queries, 192), 10000 / 192 + 7);
  EXPECT_GE(attention_forward_workspace_bytes(p), (10000 / 192 + 7) * 8);
}

TEST(AttentionHost, AsksForAWorkspaceThatHoldsTheStatisticsAndSums) {
  AttentionBackward a = problem(128, 128);
  // Two floats a row, rows rounded up to tiles of 64, besides the counters and the list headers.
  const int64_t rows = 2 * 128 * 4;
  EXPECT_GE(attention_backward_workspace_bytes(a), 2 * 4 * rows);
  EXPECT_LE(attention_backward_workspace_bytes(a), 2 * 4 * rows + 1024);
  a.problem.sizes.key_rows = 16384;  // dQ is summed up in float32
  EXPECT_GE(attention_backward_workspace_bytes(a), 4 * rows * 128);
  EXPECT_LE(attention_backward_workspace_bytes(a), 2 * 4 * rows * 128);
}

// The gradient of a bias as large as the scores comes with the others; of one that sums up sequences or heads the terms are kept.
// Where all would take more than 1 GiB, those of a head are, beside float32 sums, and where these alone would, row statistics.
TEST(AttentionHost, AsksForMemoryOfABiasOnlyWhereItsGradientIsASum) {
  alignas(16) static uint16_t memory[8];
  for (const int64_t size : {104, 20'000, 40'000}) {
    AttentionBackward a = problem(128, 128);
    a.problem.sizes.query_rows = a.problem.sizes.key_rows = size;
    const int64_t scores = 2 * 4 * size * size, statistics = 2 * int64_t{sizeof(float)} * 2 * 4 * size;
    a.problem.bias = {.data = memory,
                      .sequence_stride = 4 * size * size,
                      .head_stride = size * size,
                      .row_stride = size,
                      .column_stride = 1,
                      .rows = static_cast<int32_t>(size),
                      .columns = static_cast<int32_t>(size)};
    const int64_t alone = attention_backward_workspace_bytes(a);
    a.grad_bias = a.problem.bias;
    EXPECT_EQ(attention_backward_workspace_bytes(a), alone);
    const int64_t term = sizeof(uint16_t), of_head = size * size;
    const int64_t taken = size == 104 ? term * scores : size == 20'000 ? (term + int64_t{sizeof(float)}) * of_head : statistics;
    for (const bool of_heads : {false, true}) {
      (of_heads ? a.grad_bias.head_stride : a.grad_bias.sequence_stride) = 0;
      EXPECT_GE(attention_backward_workspace_bytes(a), alone + taken);
      EXPECT_LE(attention_backward_workspace_bytes(a), alone + taken + 512);
    }
  }
}

// dS of the four query heads of a key head is 2 GB: two take a turn, and their dK and dV are added up in float32.
TEST(AttentionHost, DividesTheQueryHeadsOfAKeyHeadForAGradientThatIsASum) {
  alignas(16) static uint16_t memory[8];
  AttentionBackward a = problem(128, 128);
  const int64_t size = 16'000;
  a.problem.sizes.kv_heads = 1;
  a.problem.sizes.query_rows = a.problem.sizes.key_rows = size;
  a.problem.bias = {.data = memory,
                    .row_stride = size,
                    .column_stride = 1,
                    .rows = static_cast<int32_t>(size),
                    .columns = static_cast<int32_t>(size)};
  const int64_t alone = attention_backward_workspace_bytes(a), kept = 2 * int64_t{sizeof(uint16_t)} * size * size,
                waiting = int64_t{sizeof(float)} * size * size, keys_and_values = 2 * int64_t{sizeof(float)} * 2 * 2 * size * 128;
  a.grad_bias = a.problem.bias;
  EXPECT_GE(attention_backward_workspace_bytes(a), alone + kept + waiting + keys_and_values);
  EXPECT_LE(attention_backward_workspace_bytes(a), alone + kept + waiting + keys_and_values + 1024);
}

// A nested batch of equal lengths counts as dense, and its bias may be larger than they are: NaN there is nobody's.
TEST(AttentionHost, TheCopyEngineSeesOfABiasWhatRowsAndKeysReach) {
  CudaAttentionProblem p = problem(128, 128).problem;
  p.bias = {.data = p.q.data, .head_stride = 128 * 136, .row_stride = 136, .column_stride = 1, .rows = 128, .columns = 136};
  for (const auto& [rows, keys] : {std::pair(100, 60), {128, 136}, {1, 136}}) {
    p.sizes.query_rows = rows, p.sizes.key_rows = keys;
    const tile::TensorMapShape shape = plane_shape(p.sizes, p.bias);
    EXPECT_EQ(shape.rows, rows);
    EXPECT_EQ(shape.columns, keys);
    EXPECT_EQ(shape.row_stride, 136);
    EXPECT_EQ(shape.heads, 4);
    EXPECT_EQ(shape.batch, 1);
    EXPECT_FALSE(shape.ragged);
  }
}

/// A ragged batch with a bias, on the host: what kernels that copy one and read the copy know of it.
struct RaggedBias {
  std::vector<int64_t> queries{0}, keys{0}, lengths, offsets;  // spare rows lie behind the keys
  AttentionBackward a = problem(128, 128);

  RaggedBias(std::mt19937_64& random, bool by_sequence, int heads, int longest) {
    const auto below = [&](int n) { return static_cast<int64_t>(random() % static_cast<unsigned>(n)); };
    CudaAttentionProblem& p = a.problem;
    int64_t elements = 0;
    p.sizes.batch = static_cast<int32_t>(1 + below(9));
    for (int b = 0; b < p.sizes.batch; ++b) {
      const int64_t rows = below(4) == 0 ? below(3) : below(longest);
      lengths.push_back(below(4) == 0 ? below(3) : below(longest));
      offsets.push_back(elements);
      elements += heads * rows * lengths.back();
      queries.push_back(queries.back() + rows);
      keys.push_back(keys.back() + lengths.back() + below(2) * below(40));
    }
    p.sizes.heads = p.sizes.kv_heads = heads;
    p.sizes.query_offsets = queries.data();
    p.sizes.key_offsets = keys.data();
    p.sizes.query_rows = queries.back() + below(2);
    p.sizes.key_rows = keys.back() + below(2);
    p.bias = {.data = p.q.data, .head_stride = heads > 1 ? 1 : 0, .row_stride = 1, .column_stride = 1};
    if (by_sequence) {
      p.bias.offsets = offsets.data();
      p.bias.elements = elements;
    } else {
      p.bias.rows = p.bias.columns = longest + static_cast<int>(below(20));
      p.sizes.most_keys = below(2) == 0 ? 0 : static_cast<int32_t>(*std::max_element(lengths.begin(), lengths.end()));
    }
  }
  int rows(int b) const { return static_cast<int>(queries[b + 1] - queries[b]); }
  int columns(int b) const { return static_cast<int>(lengths[b]); }
};

TEST(RaggedBias, SequencesOfACopyDoNotMeet) {
  std::mt19937_64 random(testing::seed() + 3);
  for (int trial = 0; trial < 600; ++trial) {
    const bool by_sequence = trial % 2 == 0;
    const RaggedBias x(random, by_sequence, 1 + trial / 2 % 3, trial % 5 == 0 ? 900 : 150);
    for (const int unit : {0, 64, 128}) {
      if (unit == 0 && !by_sequence) continue;  // nobody needs that copy
      const BiasLayout layout = bias_layout(x.a.problem, unit);
      int64_t end = 0;
      for (int b = 0; b < x.a.problem.sizes.batch; ++b) {
        const int64_t start = layout.start(b, x.queries[b], x.keys[b]);
        ASSERT_GE(start, end);
        end = start + (unit > 0 ? int64_t{panel_rows(x.rows(b), unit)} * panel_count(x.columns(b))
                                : x.rows(b) * row_elements(x.columns(b)));
        ASSERT_EQ(unit == 0 ? start % 8 : 0, 0);
      }
      ASSERT_LE(end, layout.size(x.a.problem.sizes));
    }
  }
}

// What one bulk copy brings of a panel is what the tensor map of a dense bias brings: 128 bytes a row, whose chunks are permuted.
TEST(RaggedBias, PartsOfPanelsAreTilesAsTheyLieInSharedMemory) {
  std::mt19937_64 random(testing::seed() + 4);
  for (int trial = 0; trial < 60; ++trial) {
    const int unit = trial % 2 == 0 ? 64 : 128, queries = static_cast<int>(random() % 400),
              keys = static_cast<int>(random() % 400);
    const int right = trial % 3 == 0 ? 0 : trial % 3 == 1 ? kUnboundedWindow : static_cast<int>(random() % 200) - 50;
    const LiveRows live = live_rows(band_of({kUnboundedWindow, right, true}, queries, keys), queries, keys);
    const int rows = panel_rows(live.count, unit), panels = panel_count(keys);
    const int64_t start = static_cast<int64_t>(random() % 1000);
    const auto bias = [&](int row, int key) { return row < live.end() && key < keys ? 1 + row * 1000 + key : 0; };
    std::vector<int> copy(kPanelKeys * (start + int64_t{rows} * panels), -1);  // as copy_bias fills it
    for (int row = 0; row < rows; ++row) {
      for (int key = 0; key < panels * kPanelKeys; ++key) {
        int& to = copy[kPanelKeys * panel_row(start, rows, key / kPanelKeys, row) + panel_chunk(row, key) + key % 8];
        ASSERT_EQ(to, -1) << "two elements in one place";
        to = bias(live.first + row, key);
      }
    }
    for (int64_t i = kPanelKeys * start; i < std::ssize(copy); ++i) ASSERT_NE(copy[i], -1) << "nothing in a place";
    for (int tile = 0; tile < rows / unit; ++tile) {
      for (int panel = 0; panel < panels; ++panel) {
        const int* const part = copy.data() + kPanelKeys * panel_row(start, rows, panel, tile * unit);
        for (int r = 0; r < unit; ++r) {
          for (int column = 0; column < kPanelKeys; ++column) {
            const int at = r * kPanelKeys + ((column / 8 ^ (r & 7)) << 3) + column % 8;  // the swizzle of 128 bytes
            ASSERT_EQ(part[at], bias(live.first + tile * unit + r, panel * kPanelKeys + column));
          }
        }
      }
    }
  }
}

// Memory for a few heads at a time, if there are many; what a launch of one kv head takes is there whatever it is.
TEST(RaggedBias, TakesMemoryForAFewHeadsAtATime) {
  static const int64_t offsets[] = {0, 8192};
  AttentionBackward a = problem(128, 128);
  CudaAttentionProblem& p = a.problem;
  p.sizes.batch = 1;
  p.sizes.query_offsets = p.sizes.key_offsets = offsets;
  p.bias = {.data = p.q.data, .row_stride = 1, .column_stride = 1};
  p.bias.offsets = offsets;
  struct Expected {
    int rows, heads, kv_heads;
    bool has_heads;
    int alone, units;  // kv heads, or parts of one, at a time, without the gradient of the bias and with it
  };
  for (const auto& [rows, heads, kv_heads, has_heads, alone, units] : {Expected{2048, 16, 16, false, 16, 16},
                                                                       {8192, 16, 16, false, 16, 6},
                                                                       {8192, 16, 16, true, 6, 3},
                                                                       {8192, 16, 2, false, 2, 1},
                                                                       {32768, 16, 1, false, 1, 1},
                                                                       {32768, 8, 8, true, 1, 1}}) {
    p.sizes.query_rows = p.sizes.key_rows = rows;
    p.sizes.heads = heads, p.sizes.kv_heads = kv_heads;
    p.bias.head_stride = has_heads;
    p.bias.elements = int64_t{rows} * rows * (has_heads ? heads : 1);
    EXPECT_EQ(BackwardPlan(p).panel_units, alone);
    a.grad_bias = p.bias;
    const BackwardPlan plan(p, a.grad_bias);
    EXPECT_EQ(plan.panel_units, units) << rows << " rows, " << heads << " heads";
    const int64_t of_head = 2 * p.bias.elements / (has_heads ? heads : 1), held = units * (heads / kv_heads / plan.parts);
    EXPECT_GE(plan.bytes - plan.panel_bias, of_head * (has_heads ? 2 * held : 1 + held));
    EXPECT_EQ(plan.panel_sums != 0, !has_heads && units < kv_heads * plan.parts);
    EXPECT_GE(plan.counters, (kv_heads * plan.parts + units - 1) / units);
    for (const int64_t at : {plan.panel_starts, plan.panel_bias, plan.panel_gradients, plan.panel_sums}) EXPECT_EQ(at % 256, 0);
  }
}

// Whatever the mean length, each sequence goes to the kernel for its own.
TEST(AttentionHost, ListsEachSequenceForOneKernelOfTheForward) {
  const int64_t offsets = 0;
  for (const int head_dim : {64, 96, 128, 256}) {
    CudaAttentionProblem p = problem(head_dim, head_dim).problem;
    p.sizes.query_offsets = p.sizes.key_offsets = &offsets;  // never read on the host
    for (const int64_t rows : {100, 1000000}) {
      p.sizes.query_rows = p.sizes.key_rows = rows;
      const std::vector<ForwardList> lists = forward_lists(p);
      ASSERT_EQ(lists.size(), head_dim == 256 ? 1u : 2u);
      for (const int queries : {0, 1, 64, 128, 129, 100000}) {
        int taken_by = 0;
        for (const ForwardList& list : lists)
          taken_by += queries >= list.filter.least_queries && queries <= list.filter.most_queries;
        EXPECT_EQ(taken_by, 1) << queries;
      }
      EXPECT_EQ(lists.back().instance->use == ForwardUse::short_sequences, head_dim != 256);
      EXPECT_EQ(lists.back().offset % 256, 0);
    }
    EXPECT_EQ(attention_plan_bytes(p) % 256, 0);
    EXPECT_GT(attention_plan_bytes(p), attention_forward_workspace_bytes(p));
    EXPECT_EQ(attention_plan_kind(p), 0);
    p.dropout.threshold = 26;  // by the one kernel of scores with features, or the portable one
    ASSERT_EQ(forward_lists(p).size(), head_dim == 256 ? 0u : 1u);
    EXPECT_EQ(attention_plan_bytes(p) > 0, head_dim != 256);
    const int kind = attention_plan_kind(p);
    EXPECT_NE(kind, 0);
    p.soft_cap = 30;
    EXPECT_EQ(attention_plan_kind(p), kind);
    p.ranges = {reinterpret_cast<const int32_t*>(&offsets), 1};
    EXPECT_NE(attention_plan_kind(p), kind) << "the order in which its backward draws tiles is another";
    p.ranges = {};
    p.soft_cap = 0;
    p.dropout.threshold = 0;
    p.plan = &p;
    EXPECT_EQ(attention_forward_workspace_bytes(p), 256);
  }
  EXPECT_EQ(attention_plan_bytes(problem(128, 128).problem), 0);
}

TEST(AttentionHost, RefusesDevicesThatAreNotThere) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "needs a GPU";
  const std::string there = devices == 1 ? " (there is 1)" : " (there are " + std::to_string(devices) + ")";
  expect_refused([](auto& a) { a.problem.device = 99; }, "device 99" + there);
}

TEST(AttentionHost, AsksForAWorkspaceWithoutADevice) {
  AttentionBackward a = problem(128, 128);
  a.problem.sizes.query_rows = a.problem.sizes.key_rows = 4096;
  EXPECT_GT(attention_forward_workspace_bytes(a.problem), 0);
  EXPECT_GT(attention_backward_workspace_bytes(a), 0);
}

// What the plan asks of a device is what the kernels take (kernels/args/attention_limits.h).
TEST(AttentionHost, TakesTheSharedMemoryThatThePlanIsTold) {
  static const float number = 0;
  static const int32_t bounds[2] = {};
  for (const AttentionElement element : {AttentionElement::bf16, AttentionElement::f16}) {
    for (const int dim : {8, 64, 72, 128, 136, 256}) {
      CudaAttentionProblem p = problem(dim, dim, element).problem;
      EXPECT_EQ(attention_decode_shared_bytes(p), kernels::decode_shared_bytes(dim));
      for (int features = 0; features < 3; ++features) {
        if (features == 1) p.slopes = &number;
        if (features == 2) p.ranges = {bounds, 1};
        for (const int bytes :
             {portable::forward_shared_bytes(p), portable::backward_shared_bytes(p), portable::plane_shared_bytes(p)})
          EXPECT_LE(bytes, kernels::kLeastSharedBytes) << "portable, D = " << dim << ", features " << features;
      }
    }
  }
  EXPECT_EQ(attention::shared_memory_why_not(102400, 101376),
            "a block takes 102400 bytes of shared memory (the device has 101376)");
  EXPECT_EQ(attention::shared_memory_why_not(101376, 101376), "");
}

TEST(AttentionHost, TellsKernelsTheScaleAsItIs) {
  const auto told = [](float scale) {
    CudaAttentionProblem p = problem(64, 64).problem;
    p.scale = scale;
    return device_problem(p);
  };
  for (const float scale : {0.125f, 1e-20f, 1e-35f, std::numeric_limits<float>::min()}) {
    for (const float sign : {1.0f, -1.0f}) {
      EXPECT_EQ(told(sign * scale).scale_log2, scale * 1.4426950408889634f) << scale;
      EXPECT_EQ(told(sign * scale).scale_sign, sign);
    }
  }
  EXPECT_GT(told(0).scale_log2, 0) << "times which -inf is no NaN";
  EXPECT_LT(told(0).scale_log2 * std::numeric_limits<float>::max(), 1e-6f) << "and all else nothing";
}

TEST(AttentionHost, ListsTheTilesThatThePlanIsTold) {
  static const int32_t bounds[2] = {};
  int least = INT32_MAX;
  for (const ForwardInstance& instance : forward_instances()) least = std::min(least, instance.rows);
  EXPECT_EQ(least, kernels::kLeastTileRows);
  EXPECT_EQ(kShortRows, kernels::kLeastTileRows);
  for (const AttentionElement element : {AttentionElement::bf16, AttentionElement::f16}) {
    for (const int dim : {64, 128}) {
      CudaAttentionProblem p = problem(dim, dim, element).problem;
      p.ranges = {bounds, 1};
      const ForwardInstance* const forward = find_forward(p, ForwardUse::scored);
      EXPECT_EQ(forward->rows, kernels::walk_tiles(false, dim).owned);
      EXPECT_EQ(forward->keys, kernels::walk_tiles(false, dim).walked);
      const BackwardPlan backward(p);
      EXPECT_EQ(backward.owner_of_keys().owned_rows, kernels::walk_tiles(true, dim).owned);
      EXPECT_EQ(backward.unit, kernels::walk_tiles(true, dim).walked);
    }
  }
}

TEST(TensorMap, RefusesPackedRowsWhoseMapWouldBeginBelowZero) {
  tile::TensorMapShape shape{reinterpret_cast<void*>(uintptr_t{1} << 20), 0, 1024, 64, 1, 513, 16, 64, true};
  try {
    tile::make_tensor_map(shape, 64);
    FAIL() << "expected an error";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("513 packed rows of 2048 bytes"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace deckle
