#include "deckle/nested/products.h"

#include "deckle/nested/generated/matmul.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "tests/nested/support.h"

namespace deckle {
namespace {

using namespace testing;

std::vector<std::pair<int64_t, int64_t>> squares(const std::vector<int64_t>& lengths) {
  std::vector<std::pair<int64_t, int64_t>> result;
  for (const int64_t length : lengths) result.emplace_back(length, length);
  return result;
}

TEST(NestedMatmul, ScoresOfTwoRaggedSequences) {
  for (const auto& lengths : ragged_patterns()) {
    std::vector<int64_t> keys = lengths;
    std::reverse(keys.begin(), keys.end());
    const NestedTensor q = random_nested(lengths, {4}), k = random_nested(keys, {4});
    const NestedTensor scores = matmul(q, k, {.transpose_other = true});
    EXPECT_EQ(scores.ragged_dims(), 2);
    expect_components(scores, q.components(), [&](int64_t b) { return matmul(q[b], k[b].t()); });
  }
  const auto f = [](const NestedTensor& q, const NestedTensor& k) { return matmul(q, k, {.transpose_other = true}); };
  expect_gradients(f, std::tuple(random_nested({2, 0, 3}, {2}), random_nested({1, 4, 2}, {2})));
}

TEST(NestedMatmul, ARaggedInnerDim) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor p = random_matrices(squares(lengths)), v = random_nested(lengths, {3});
    const NestedTensor out = matmul(p, v);
    EXPECT_EQ(out.ragged_dims(), 1);
    expect_components(out, p.components(), [&](int64_t b) { return matmul(p[b], v[b]); });
    const NestedTensor x = random_nested(lengths, {2}), gram = matmul(x, v, {.transpose_self = true});
    EXPECT_EQ(gram.ragged_dims(), 0);
    expect_components(gram, p.components(), [&](int64_t b) { return matmul(x[b].t(), v[b]); });
  }
  const auto f = [](const NestedTensor& p, const NestedTensor& v) { return matmul(p, v); };
  expect_gradients(f, std::tuple(random_matrices({{2, 3}, {4, 0}, {1, 2}}), random_nested({3, 0, 2}, {2})));
  const auto gram = [](const NestedTensor& x, const NestedTensor& y) { return matmul(x, y, {.transpose_self = true}); };
  expect_gradients(gram, std::tuple(random_nested({3, 0, 2}, {2}), random_nested({3, 0, 2}, {3})));
}

TEST(NestedMatmul, BothOperandsTransposed) {
  const NestedTensor a = random_matrices({{3, 2}, {0, 4}, {2, 1}}), b = random_matrices({{5, 3}, {2, 0}, {1, 2}});
  const auto f = [](const NestedTensor& x, const NestedTensor& y) {
    return matmul(x, y, {.transpose_self = true, .transpose_other = true});
  };
  expect_components(f(a, b), 3, [&](int64_t i) { return matmul(a[i].t(), b[i].t()); });
  expect_gradients(f, std::tuple(a, b));
}

TEST(NestedMatmul, DenseOperandsAreSharedOrPerComponent) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, {4});
    const int64_t components = x.components();
    const Tensor shared = random_tensor({4, 3}), each = random_tensor({components, 4, 3}), vector = random_tensor({4});
    expect_components(matmul(x, shared), components, [&](int64_t b) { return matmul(x[b], shared); });
    expect_components(matmul(x, each), components, [&](int64_t b) { return matmul(x[b], each[b]); });
    expect_components(matmul(x, vector), components, [&](int64_t b) { return matmul(x[b], vector); });
    const Tensor left = random_tensor({components, 2, 4}), shared_left = random_tensor({2, 4});
    expect_components(matmul(left, x, {.transpose_other = true}), components,
                      [&](int64_t b) { return matmul(left[b], x[b].t()); });
    expect_components(matmul(shared_left, x, {.transpose_other = true}), components,
                      [&](int64_t b) { return matmul(shared_left, x[b].t()); });
    expect_components(bmm(x, each), components, [&](int64_t b) { return matmul(x[b], each[b]); });
  }
  const NestedTensor x = random_nested({2, 0, 3}, {2});
  expect_gradients([](const NestedTensor& a, const Tensor& w) { return matmul(a, w); }, std::tuple(x, random_tensor({3, 2, 2})));
  expect_gradients([](const NestedTensor& a, const Tensor& w) { return matmul(w, a, {.transpose_other = true}); },
                   std::tuple(x, random_tensor({3, 2})));
}

TEST(NestedMatmul, RegularMatricesAreMultipliedOnTheValues) {
  const NestedTensor x = random_nested({2, 0, 3}, {3, 4}), y = random_nested({2, 0, 3}, {4, 2});
  const Tensor w = random_tensor({3, 3, 4, 2}).unsqueeze(1).select(2, 0).unsqueeze(1);  // [3, 1, 1, 4, 2]
  expect_components(matmul(x, y), 3, [&](int64_t b) { return matmul(x[b], y[b]); });
  expect_components(matmul(x, w.select(2, 0)), 3, [&](int64_t b) { return matmul(x[b], w[b][0]); });
}

TEST(NestedLinear, WeightsOfTheirOwnForEachComponent) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, {4}), wide = random_nested(lengths, {2, 4});
    const Tensor weight = random_tensor({x.components(), 3, 4}), bias = random_tensor({x.components(), 3}),
                 one = random_tensor({3});
    expect_components(linear(x, weight, bias), x.components(), [&](int64_t b) { return linear(x[b], weight[b], bias[b]); });
    expect_components(linear(wide, weight, one), x.components(), [&](int64_t b) { return linear(wide[b], weight[b], one); });
  }
  const auto f = [](const NestedTensor& x, const Tensor& w, const Tensor& b) { return linear(x, w, b); };
  expect_gradients(f, std::tuple(random_nested({2, 0, 3}, {2}), random_tensor({3, 2, 2}), random_tensor({3, 2})));
}

TEST(NestedMatmul, LargeAndManyComponentsInEveryDtype) {
  std::vector<int64_t> lengths = {700, 0, 65, 1, 130};
  for (int i = 0; i < 300; ++i) lengths.push_back(random_integer(0, 4));
  const NestedTensor x = random_nested(lengths, {33}), y = random_nested(lengths, {33});
  for (const DType dtype : {DType::float64, DType::float32, DType::bfloat16, DType::float16}) {
    // Sums of at most 700 products of normal numbers, in float32 or wider, then one rounding to the dtype.
    const double summed = dtype == DType::float64 ? 1e-11 : 1e-3;
    const double rounded = dtype == DType::bfloat16 ? 1.0 / 256 : dtype == DType::float16 ? 1.0 / 2048 : 0;
    const NestedTensor a = x.to(dtype), b = y.to(dtype);
    const NestedTensor scores = matmul(a, b, {.transpose_other = true}), gram = matmul(a, b, {.transpose_self = true});
    for (int64_t i = 0; i < x.components(); i += 1 + i / 5) {
      const Tensor p = a[i].to(DType::float64), q = b[i].to(DType::float64);
      expect_close(scores[i].to(DType::float64), matmul(p, q.t()), summed, rounded);
      expect_close(gram[i].to(DType::float64), matmul(p.t(), q), summed, rounded);
    }
  }
}

TEST(NestedMatmul, SaysWhatDoesNotFit) {
  const NestedTensor x = random_nested({2, 3}, {4});
  expect_error(
      [&] {
        matmul(x, random_nested({2, 3}, {4}));
      },
      "matmul: component 0 multiplies [2, 4] by [2, 4] (expected equal inner dims)");
  expect_error([&] { matmul(x, random_nested({2}, {3}), {.transpose_self = true}); }, "self has 2 components, other has 1");
  expect_error([&] { matmul(x, random_tensor({3, 4, 2})); }, "a dense operand of shape [3, 4, 2] for 2 components");
  expect_error([&] { linear(x, random_tensor({3, 2, 4})); }, "expected [2, out, 4] or [out, 4]");
  expect_error([&] { linear(random_nested({2, 3}, {}), random_tensor({4, 5})); }, "the last dim of shape [2, 2..3] is ragged");
  expect_error([&] { bmm(x, random_tensor({4, 2})); }, "and mat2 [4, 2] (expected two batches of matrices)");
}

}  // namespace
}  // namespace deckle
