// Masks against a dense boolean reference, on random expressions.

#include "deckle/attention/mask.h"

#include <limits>

#include "deckle/attention/attention.h"
#include "deckle/attention/compile_mask.h"
#include "deckle/functional/transforms.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/mask_case.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using testing::compiled_mask_differs;
using testing::expect_close;
using testing::expect_equal;
using testing::expect_error;
using testing::MaskBatch;
using testing::MaskCase;
using testing::MaskDrawer;
using testing::random_integer;
using testing::random_tensor;

/// Masks of fresh random numbers.
MaskDrawer drawer() { return MaskDrawer(random_integer); }

TEST(AttentionMask, ACompiledExpressionAllowsExactlyWhatItsPartsSay) {
  for (int n = 0; n < 2000; ++n) {
    MaskDrawer draw = drawer();
    const MaskBatch batch = draw.batch(12);
    ASSERT_EQ(compiled_mask_differs(draw.mask(batch, 3), batch), "");
  }
}

TEST(AttentionMask, FormulasStayFormulasAndEmptyTilesAreSkipped) {
  const Ragged rows = Ragged::from_lengths(std::vector<int64_t>{6});
  const auto compiled = [&](const AttentionMask& mask) { return compile_mask(mask, rows, rows, 2); };
  const CompiledMask band = compiled(masks::causal() && masks::window(3, 2) && masks::full());
  EXPECT_TRUE(band.causal && band.left == 3 && band.bounds.empty() && !band.plane.defined());
  const CompiledMask everything = compiled(masks::causal() || !masks::causal());
  EXPECT_TRUE(!everything.causal && everything.bounds.empty() && !everything.plane.defined());
  // Documents of three rows: a row's range ends with its document, and with its own position.
  const Tensor ids = to(testing::tensor_of({7, 7, 7, 9, 9, 9}), DType::int64).view({1, 6});
  const CompiledMask packed = compiled(masks::causal() && masks::documents(ids));
  EXPECT_TRUE(packed.causal && packed.range_count == 1 && !packed.plane.defined());
  EXPECT_EQ(packed.bounds, (std::vector<int32_t>{0, 3, 0, 3, 0, 3, 3, 6, 3, 6, 3, 6}));
  const CompiledMask prefix = compiled(masks::prefix_lm(4));
  EXPECT_EQ(prefix.bounds, (std::vector<int32_t>{0, 4, 0, 4, 0, 4, 0, 4, 0, 5, 0, 6}));
  // A boolean mask of few runs becomes ranges; one of many keeps its plane, and ranges around what is true.
  const Tensor padding = ne(testing::tensor_of({1, 1, 1, 1, 0, 0}), 0.0).view({1, 1, 1, 6});
  EXPECT_TRUE(!compiled(masks::boolean(padding)).plane.defined());
  EXPECT_EQ(compiled(masks::boolean(padding)).bounds[1], 4);
  const Ragged longer = Ragged::from_lengths(std::vector<int64_t>{64});
  const Tensor teeth = zeros_raw({1, 1, 1, 64}, DType::bool_, Device());
  for (int64_t j = 8; j < 40; j += 2) teeth.data<bool>()[j] = true;
  const CompiledMask comb = compile_mask(masks::boolean(teeth), longer, longer, 2);
  EXPECT_TRUE(comb.plane.defined() && comb.range_count <= 4);
  EXPECT_EQ(comb.bounds.front(), 8);
  EXPECT_EQ(comb.bounds[static_cast<size_t>(2 * comb.range_count - 1)], 39);
}

/// Attention of packed rows by public ops on dense arrays, sequence by sequence: (out, lse), rows that see nothing are 0 in both.
std::tuple<Tensor, Tensor> dense_attention(const MaskBatch& batch, const MaskCase& c, const Tensor& q, const Tensor& k,
                                           const Tensor& v) {
  std::vector<Tensor> outs, lses;
  const int64_t heads = batch.heads;
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(2)));
  for (int64_t b = 0; b < batch.sequences(); ++b) {
    const auto at = static_cast<size_t>(b);
    const int64_t rows = batch.rows[at], keys = batch.keys[at];
    if (rows == 0) continue;
    if (keys == 0) {
      outs.push_back(zeros({rows, heads, v.size(2)}, DType::float64));
      lses.push_back(zeros({rows, heads}, DType::float64));
      continue;
    }
    const Tensor seen = zeros_raw({heads, rows, keys}, DType::bool_, Device());
    const Tensor blind = zeros_raw({heads, rows, 1}, DType::bool_, Device());
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < rows; ++i) {
        bool any = false;
        for (int64_t j = 0; j < keys; ++j) any |= seen.data<bool>()[(h * rows + i) * keys + j] = c.sees(b, h, i, j);
        blind.data<bool>()[h * rows + i] = !any;
      }
    }
    const Tensor allowed = seen.to(factory_device()), dead = blind.to(factory_device());
    const auto by_head = [](const Tensor& x, int64_t first, int64_t count) {
      return transpose(slice(x, 0, first, first + count), 0, 1);
    };
    const int64_t row = batch.q()->offsets()[at], key = batch.k()->offsets()[at];
    const Tensor logits = mul(matmul(by_head(q, row, rows), transpose(by_head(k, key, keys), 1, 2)), scale);
    const Tensor z = masked_fill(masked_fill(logits, logical_not(allowed), -std::numeric_limits<double>::infinity()), dead, 0.0);
    const Tensor p = masked_fill(softmax(z, 2), dead, 0.0);
    outs.push_back(transpose(matmul(p, by_head(v, key, keys)), 0, 1));
    lses.push_back(transpose(masked_fill(logsumexp(z, 2), dead.view({heads, rows}), 0.0), 0, 1));
  }
  if (outs.empty()) return {zeros({0, heads, v.size(2)}, DType::float64), zeros({0, heads}, DType::float64)};
  return {cat(outs, 0), cat(lses, 0)};
}

TEST(AttentionMask, EveryDerivativeMatchesTheDenseReference) {
  for (int n = 0; n < 60; ++n) {
    MaskBatch batch = drawer().batch(9);
    batch.all = batch.keys;
    const MaskCase c = drawer().mask(batch, 2);
    SCOPED_TRACE(c.text);
    const int64_t heads = batch.heads, rows = batch.q()->rows(), keys = batch.k()->rows();
    using Inputs = std::tuple<Tensor, Tensor, Tensor>;
    const auto draw = [&] {
      return Inputs(random_tensor({rows, heads, 3}), random_tensor({keys, heads, 3}), random_tensor({keys, heads, 4}));
    };
    const auto fused = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
      const auto [out, lse] = attention_with_lse(NestedTensor(q, batch.q()), NestedTensor(k, batch.k()),
                                                 NestedTensor(v, batch.k()), {.mask = c.mask});
      return std::tuple(out.values(), masked_fill(lse.values(), isinf(lse.values()), 0.0));
    };
    const auto dense = [&](const Tensor& q, const Tensor& k, const Tensor& v) { return dense_attention(batch, c, q, k, v); };
    const Tensor out_weight = random_tensor({rows, heads, 4}), lse_weight = random_tensor({rows, heads});
    const auto loss_of = [&](const auto& f) {
      return [&](const Tensor& q, const Tensor& k, const Tensor& v) {
        const auto [out, lse] = f(q, k, v);
        return add(sum(mul(out, out_weight)), sum(mul(lse, lse_weight)));
      };
    };
    const auto expect_same = [](const auto& a, const auto& b) {
      std::apply([&](const auto&... x) { std::apply([&](const auto&... y) { (expect_close(x, y, 1e-11, 1e-9), ...); }, b); }, a);
    };
    const Inputs x = draw(), t = draw();
    const auto [fused_value, fused_tangent] = jvp(fused, x, t);
    const auto [dense_value, dense_tangent] = jvp(dense, x, t);
    expect_same(fused_value, dense_value);
    expect_same(fused_tangent, dense_tangent);
    const auto [fused_gradient, fused_product] = hvp(loss_of(fused), x, t);
    const auto [dense_gradient, dense_product] = hvp(loss_of(dense), x, t);
    expect_same(fused_gradient, dense_gradient);
    expect_same(fused_product, dense_product);
    const auto double_backward = [&](const auto& f) {  // the gradient of <gradient, t>
      return grad(
          [&](const Tensor& q, const Tensor& k, const Tensor& v) {
            const auto [gq, gk, gv] = grad(loss_of(f), Inputs(q, k, v));
            return add(add(sum(mul(gq, std::get<0>(t))), sum(mul(gk, std::get<1>(t)))), sum(mul(gv, std::get<2>(t))));
          },
          x);
    };
    expect_same(double_backward(fused), double_backward(dense));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(AttentionMask, TensorsOfAMaskMayBeWrittenAfterwards) {
  const Tensor allowed = gt(random_tensor({1, 1, 40, 40}), 0.0), ids = to(gt(random_tensor({1, 40}), 0.0), DType::int64);
  const Tensor q = random_tensor({1, 40, 2, 3}), cotangent = random_tensor({1, 40, 2, 3});
  const auto gradient = [&](bool write) {
    const Tensor mine = allowed.clone(), my_ids = ids.clone();
    const AttentionMask mask = masks::boolean(mine) || masks::documents(my_ids);
    return vjp(
               [&](const Tensor& x) {
                 const Tensor out = attention(x, x, x, {.mask = mask});
                 if (write) mine.fill_(false), my_ids.fill_(0);
                 return add(out, attention(x, x, x, {.mask = mask}));
               },
               q, cotangent)
        .second;
  };
  expect_equal(gradient(true), gradient(false));
}

TEST(AttentionMask, DocumentsOfAllRowsBesideKeyLengths) {
  const std::vector<int64_t> used = {3, 5};
  const Tensor q = random_tensor({2, 4, 2, 3}), k = random_tensor({2, 6, 2, 3}),
               q_ids = to(gt(random_tensor({2, 4}), 0.0), DType::int64), k_ids = to(gt(random_tensor({2, 6}), 0.0), DType::int64);
  const auto result = [&](const AttentionMask& mask) { return attention(q, k, k, {.mask = mask, .key_lengths = used}); };
  const Tensor of_all = result(masks::documents(q_ids, k_ids));
  const NestedTensor of_rows = NestedTensor::from_lengths(flatten(q_ids, 0, 1), {4, 4});
  expect_equal(of_all, result(masks::documents(of_rows, NestedTensor::from_padded(k_ids, used))));
  for (int64_t b = 0; b < 2; ++b) {
    const auto keys = [&](const Tensor& x) { return x.slice(0, b, b + 1).slice(1, 0, used[static_cast<size_t>(b)]); };
    const Tensor alone =
        attention(q.slice(0, b, b + 1), keys(k), keys(k), {.mask = masks::documents(q_ids.slice(0, b, b + 1), keys(k_ids))});
    expect_close(of_all.slice(0, b, b + 1), alone, 1e-12, 1e-12);
  }
}

TEST(AttentionMask, ScatteredRangesTakeNoMoreThanAPlane) {
  const int64_t rows = 512;
  const Tensor ids = zeros_raw({1, rows}, DType::int64, Device());
  for (int64_t i = 0; i < rows; ++i) ids.data<int64_t>()[i] = i % 2;
  const Ragged one = Ragged::from_lengths(std::vector<int64_t>{rows});
  const CompiledMask mask = compile_mask(masks::documents(ids) && masks::causal(), one, one, 1);
  EXPECT_TRUE(mask.causal && mask.plane.defined());
  EXPECT_EQ(mask.plane.numel(), rows * rows);
  EXPECT_LE(static_cast<int64_t>(mask.bounds.size() * sizeof(int32_t)), rows * rows);
  const Tensor q = random_tensor({1, rows, 1, 4});
  const auto half = [](const Tensor& x, int64_t first) { return x.slice(1, first, x.size(1), 2); };  // rows of one id
  const Tensor out = attention(q, q, q, {.mask = masks::documents(ids)});
  for (const int64_t id : {0, 1}) expect_close(half(out, id), attention(half(q, id), half(q, id), half(q, id)), 1e-12, 1e-12);
}

TEST(AttentionMask, DenseEqualsRaggedOfEqualLengths) {
  for (int n = 0; n < 20; ++n) {
    const MaskBatch batch{.rows = {5, 5}, .keys = {7, 7}, .all = {7, 7}, .dense = true};
    const MaskCase c = drawer().mask(batch, 2);
    const Tensor q = random_tensor({2, 5, 2, 3}), k = random_tensor({2, 7, 2, 3});
    const NestedTensor packed = attention(NestedTensor(flatten(q, 0, 1), batch.q()), NestedTensor(flatten(k, 0, 1), batch.k()),
                                          NestedTensor(flatten(k, 0, 1), batch.k()), {.mask = c.mask});
    expect_equal(flatten(attention(q, k, k, {.mask = c.mask}), 0, 1), packed.values());
  }
}

TEST(AttentionMask, WindowsWiderThanAnySequenceLimitNothing) {
  constexpr int64_t kWidest = std::numeric_limits<int64_t>::max();
  const Tensor q = random_tensor({1, 9, 1, 4}), k = random_tensor({1, 3, 1, 4});
  const auto with = [&](const AttentionMask& mask) { return attention(q, k, k, {.mask = mask}); };
  for (const int64_t wide : {kWidest, kWidest - 1, int64_t{1} << 40}) {
    expect_equal(with(masks::window(wide, wide)), with(masks::full()));
    expect_equal(with(!masks::window(wide, 1)), with(!masks::window(-1, 1)));
    expect_equal(with(masks::window(1, wide) || masks::prefix(wide)), with(masks::full()));
  }
}

}  // namespace
}  // namespace deckle
