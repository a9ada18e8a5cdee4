#include "deckle/nested/generated/index.h"
#include "deckle/nested/generated/matmul.h"
#include "deckle/nested/generated/norm.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/nested/generated/reduce.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/operators.h"
#include "deckle/ops/generated/factory.h"
#include "tests/nested/support.h"

namespace deckle {
namespace {

using namespace testing;

TEST(NestedOps, PointwiseOpsActOnEveryComponent) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, {2}), y = random_nested(lengths, {2});
    const NestedTensor z = silu(x) * 2.0 + x * y;
    for (int64_t b = 0; b < x.components(); ++b) expect_equal(z[b], silu(x[b]) * 2.0 + x[b] * y[b]);
  }
}

TEST(NestedOps, DenseOperandsBroadcastAlongTheRows) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, {3});
    const Tensor per_component = random_tensor({x.components(), 1, 3}), per_column = random_tensor({3});
    const NestedTensor y = x * per_component + per_column;
    for (int64_t b = 0; b < x.components(); ++b) expect_equal(y[b], x[b] * per_component[b] + per_column);
    expect_equal((per_column - x).values(), per_column - x.values());
  }
}

TEST(NestedOps, NestedOperandsOfFewerDimsBroadcast) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, {2, 3}), per_row = random_nested(lengths, {}),
                       columns = random_nested(lengths, {3});
    expect_components(x * per_row, x.components(), [&](int64_t b) { return x[b] * per_row[b].unsqueeze(1).unsqueeze(1); });
    expect_components(columns - x, x.components(), [&](int64_t b) { return columns[b].unsqueeze(1) - x[b]; });
    const NestedTensor totals = sum(x, {1}), kept = sum(x, {1}, true);
    expect_components(x * totals, x.components(), [&](int64_t b) { return x[b] * totals.values()[b]; });
    expect_components(x * kept, x.components(), [&](int64_t b) { return x[b] * totals.values()[b]; });
  }
  const NestedTensor images = random_matrices({{2, 3}, {3, 1}, {0, 4}}, {2}), rows = random_nested({2, 3, 0}, {2});
  expect_components(images * rows, 3, [&](int64_t b) { return images[b] * rows[b].unsqueeze(1); });
  expect_gradients([](const NestedTensor& a, const NestedTensor& b) { return a * b; }, std::tuple(images, rows));
  expect_gradients([](const NestedTensor& a) { return a * sum(a, {1}); }, random_nested({2, 0, 3}, {2}));
  expect_error([&] { images* random_nested({2, 2, 0}, {2}); }, "component 1 has size 2 in dim 1 beside 3");
  expect_error([&] { add_(rows, images); }, "ragged shapes differ");
}

TEST(NestedOps, BroadcastGradientsReachTheDenseSide) {
  const NestedTensor x = random_nested({2, 0, 3}, {2});
  const auto f = [](const NestedTensor& a, const Tensor& b, const Tensor& c) { return a * b * c; };
  expect_gradients(f, std::tuple(x, random_tensor({3, 1, 2}), random_tensor({2})));
}

TEST(NestedOps, LinearNormsAndEmbeddingActOnRows) {
  const NestedTensor x = random_nested({2, 0, 3}, {4});
  const Tensor weight = random_tensor({5, 4}), bias = random_tensor({5}), scale = random_tensor({4});
  const NestedTensor y = linear(x, weight, bias), z = rms_norm(x, scale);
  for (int64_t b = 0; b < 3; ++b) {
    expect_close(y[b], linear(x[b], weight, bias), 1e-12, 1e-12);
    expect_close(z[b], rms_norm(x[b], scale), 1e-12, 1e-12);
  }
  expect_gradients([](const NestedTensor& a, const Tensor& w) { return linear(a, w); }, std::tuple(x, weight));
  expect_gradients([](const NestedTensor& a, const Tensor& w) { return layer_norm(a, w, w, 0.1); }, std::tuple(x, scale));
}

TEST(NestedOps, SumOverTheRaggedDimEqualsALoopOverComponents) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, {3});
    const Tensor got = sum(x, {1}).dense();
    for (int64_t b = 0; b < x.components(); ++b) expect_close(got[b], sum(x[b], {0}), 1e-12, 1e-12);
    expect_equal(sum(x, {1}, true).dense(), got.unsqueeze(1));
  }
  expect_gradients([](const NestedTensor& a) { return sum(a * a, {1}); }, random_nested({2, 0, 3}, {2}));
}

TEST(NestedOps, SegmentReductionsEqualLoopsOverComponents) {
  const std::vector<int64_t> lengths = {3, 1, 5};
  const NestedTensor x = random_nested(lengths, {2});
  const Tensor mean_rows = segment_mean(x.values(), x.ragged()), softmax_rows = segment_softmax(x.values(), x.ragged());
  const Tensor largest = std::get<0>(segment_max(x.values(), x.ragged()));
  for (int64_t b = 0; b < 3; ++b) {
    expect_close(mean_rows[b], mean(x[b], {0}), 1e-12, 1e-12);
    expect_close(NestedTensor(softmax_rows, x.ragged())[b], softmax(x[b], 0), 1e-12, 1e-12);
    for (int64_t c = 0; c < 2; ++c) {
      double want = -1e300;
      for (const double value : x[b].select(1, c).to_vector()) want = std::max(want, value);
      EXPECT_EQ(largest[b][c].item(), want);
    }
  }
  expect_gradients([](const NestedTensor& a) { return segment_mean(a.values() * a.values(), a.ragged()); }, x);
  expect_gradients([](const NestedTensor& a) { return segment_softmax(a.values(), a.ragged()); }, x);
  expect_gradients([](const NestedTensor& a) { return std::get<0>(segment_max(a.values(), a.ragged())); }, x);
}

TEST(NestedOps, RegularDimsAreCountedAfterTheRaggedOnes) {
  const NestedTensor x = random_nested({2, 3}, {3, 4});
  const NestedTensor y = transpose(x, 2, 3);
  expect_equal(y[1], x[1].transpose(1, 2));
  expect_equal(unsqueeze(x, -1)[0], x[0].unsqueeze(-1));
  expect_equal(softmax(x, -1)[1], softmax(x[1], -1));
  expect_error([&] { unsqueeze(x, 0); }, "new dim 0 is the batch");
}

TEST(NestedOps, LongRowsOfADenseOperandRepeatWithoutBeingWrittenOut) {
  const std::vector<int64_t> lengths = {3, 0, 5, 1};
  const NestedTensor x = random_nested(lengths, {2, 8});
  const Tensor rows = random_tensor({4, 1, 2, 8});
  const NestedTensor product = mul(x, rows), difference = sub(rows, x);
  for (int64_t b = 0; b < 4; ++b) {
    expect_equal(product[b], mul(x[b], rows[b]));
    expect_equal(difference[b], sub(rows[b], x[b]));
  }
  expect_gradients([](const NestedTensor& a, const Tensor& r) { return exp(mul(a, r)); }, std::tuple(x, mul(rows, 0.1)));
  expect_gradients([](const NestedTensor& a) { return mul(a, sum(a, {1}, true)); }, x);
  expect_gradients([](const NestedTensor& a) { return sum(square(a), {0}); }, x);
}

TEST(NestedOps, DifferentRaggednessIsRefused) {
  const NestedTensor x = random_nested({5, 2, 9}, {2}), y = random_nested({5, 3, 9}, {2});
  expect_error([&] { add(x, y); },
               "ragged shapes differ: self has 3 components of lengths [5, 2, 9], other has 3 components of lengths [5, 3, 9] "
               "(component 1)");
  expect_error([&] { add(x, random_tensor({2, 1, 2})); }, "does not broadcast");
  expect_error([&] { add(x, random_tensor({3, 2, 2})); }, "does not broadcast");
}

TEST(NestedOps, InplaceWritesReachTheValues) {
  const NestedTensor x = random_nested({2, 3}, {2});
  const Tensor before = x.values().clone();
  mul_(x, 2.0);
  expect_equal(x.values(), before * 2.0);
}

}  // namespace
}  // namespace deckle
