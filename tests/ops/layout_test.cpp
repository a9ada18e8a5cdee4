// Where elements lie: results of permuted operands, reductions of them, copies of repeated elements.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "deckle/autograd/backward.h"
#include "deckle/core/from_data.h"
#include "deckle/ops/generated/arrange.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/random.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

using Values = std::vector<double>;

Tensor permuted() { return permute(randn({4, 5, 3}), {2, 0, 1}); }

TEST(Layout, ResultsLieAsPermutedOperandsDo) {
  const Tensor x = permuted(), y = permuted(), rows = contiguous(x);
  for (const Tensor& result : {x * 2.0, x + y, exp(x), to(x, DType::float64), x > 0.0, where(x > y, x, y)}) {
    EXPECT_EQ(result.strides(), x.strides());
  }
  EXPECT_EQ((x * y + 1.0).to_vector(), (rows * contiguous(y) + 1.0).to_vector());
  EXPECT_EQ(to(x, DType::float64).to_vector(), rows.to_vector());
  EXPECT_EQ((x > y).to_vector(), (rows > contiguous(y)).to_vector());
}

TEST(Layout, OperandsThatRepeatElementsSayNothing) {
  const Tensor x = permuted(), row = randn({5}), one = randn({3, 1, 1});
  for (const Tensor& other : {row, one, expand(one, x.sizes()), expand(row, x.sizes())}) {
    EXPECT_EQ((x + other).strides(), x.strides());
    EXPECT_EQ((other + x).strides(), x.strides());
    EXPECT_EQ((x + other).to_vector(), (contiguous(x) + other).to_vector());
  }
}

TEST(Layout, WhereOperandsDifferOrHaveGapsResultsAreRowMajor) {
  const Tensor x = permuted(), rows = contiguous(x), other = permute(randn({5, 4, 3}), {2, 1, 0});
  const Tensor gaps = slice(permute(randn({4, 5, 6}), {2, 0, 1}), 0, 0, 3);
  for (const Tensor& result : {x + rows, rows + x, x + other, gaps * 2.0, to(gaps, DType::float64)})
    EXPECT_TRUE(result.is_contiguous());
  EXPECT_EQ((x + other).to_vector(), (rows + contiguous(other)).to_vector());
  EXPECT_EQ((gaps * 2.0).to_vector(), (contiguous(gaps) * 2.0).to_vector());
}

TEST(Layout, ReductionsOfPermutedTensorsAreThose) {
  const Tensor x = to(permute(randn({14, 35, 23}), {2, 0, 1}), DType::float64), rows = contiguous(x);
  const auto near = [](const Tensor& got, const Tensor& want) {
    const Values a = got.to_vector(), b = want.to_vector();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-11);
  };
  for (const Dims& dims : {Dims{0, 1, 2}, Dims{0, 1}, Dims{1, 2}, Dims{0, 2}, Dims{2}}) {
    near(sum(x, dims), sum(rows, dims));
    near(amax(x, dims), amax(rows, dims));
    near(var(x, dims), var(rows, dims));
    near(prod(exp(x * 0.01), dims), prod(exp(rows * 0.01), dims));
  }
  near(sum(expand(slice(x, 1, 0, 1), x.sizes())), 14.0 * sum(slice(x, 1, 0, 1)));
}

TEST(Layout, GradientsOfSpreadOfATransposedMatrixAreThoseOfItsCopyAndLieAsItDoes) {
  const std::pair<DType, double> bounds[] = {
      {DType::float64, 1e-12}, {DType::float32, 1e-5}, {DType::float16, 0x1p-9}, {DType::bfloat16, 0x1p-6}};
  for (const auto& [dtype, bound] : bounds) {
    for (const Dims& sizes : {Dims{40, 70}, Dims{70, 40}, Dims{3, 40}, Dims{40, 3}, Dims{2100, 33}}) {
      for (const Dims& dims : {Dims{0}, Dims{1}, Dims{-1}, Dims{-2}, Dims{0, 1}}) {
        const Tensor x = transpose(to(randn({sizes[1], sizes[0]}), dtype), 0, 1).detach().requires_grad_();
        const Tensor rows = contiguous(x.detach()).requires_grad_();
        for (const bool root : {false, true}) {
          const auto gradient = [&](const Tensor& of) {
            const Tensor spread = root ? std(of, dims) : var(of, dims);
            return grad({sum(spread * spread)}, {of}).front();
          };
          const Tensor got = gradient(x), want = gradient(rows);
          const double error = amax(abs(to(got, DType::float64) - to(want, DType::float64))).item<double>();
          EXPECT_LE(error, bound * amax(abs(want)).item<double>()) << name(dtype) << ::testing::PrintToString(sizes);
          EXPECT_EQ(got.strides(), x.strides()) << ::testing::PrintToString(sizes);
        }
      }
    }
  }
}

TEST(Layout, MovedElementsOfPermutedOperandsAreThose) {
  const Tensor x = permuted(), rows = contiguous(x), other = permute(randn({5, 4, 3}), {2, 1, 0});
  const Tensor at = randint(0, 3, {3, 4, 5}), gaps = slice(permute(randn({4, 5, 6}), {2, 0, 1}), 0, 0, 3);
  EXPECT_EQ(gather(x, 0, at).to_vector(), gather(rows, 0, at).to_vector());
  EXPECT_EQ(scatter_add(x, 0, at, other).to_vector(), scatter_add(rows, 0, at, contiguous(other)).to_vector());
  EXPECT_EQ(cat({x, other, gaps}, 1).to_vector(), cat({rows, contiguous(other), contiguous(gaps)}, 1).to_vector());
  EXPECT_EQ(flip(gaps, {0, 2}).to_vector(), flip(contiguous(gaps), {2, 0}).to_vector());
  EXPECT_EQ(flip(x, {0, 1, 2}).to_vector(), flip(rows, {-1, -2, -3}).to_vector());
  EXPECT_EQ(flip(expand(slice(x, 1, 0, 1), x.sizes()), {1}).to_vector(),
            contiguous(expand(slice(x, 1, 0, 1), x.sizes())).to_vector());
}

/// Permutes the dims of what it is given, with gaps behind a dim of memory unless it is -1; a size of 0 or 1 among them says
/// nothing of the order.
struct Lay {
  const char* name;
  Ints order, inverse;
  int64_t gaps = -1;

  Tensor operator()(const Tensor& rows) const {
    Tensor laid = contiguous(permute(rows, order));
    if (gaps >= 0) laid = slice(cat({laid, laid}, gaps), gaps, 0, laid.size(gaps));
    return permute(laid, inverse);
  }
};
const Lay kLays[] = {{"row-major", {0, 1, 2}, {0, 1, 2}},
                     {"last first", {2, 0, 1}, {1, 2, 0}},
                     {"backwards", {2, 1, 0}, {2, 1, 0}},
                     {"middle first", {1, 0, 2}, {1, 0, 2}},
                     {"last first, with gaps", {2, 0, 1}, {1, 2, 0}, 2},
                     {"middle first, with gaps", {1, 0, 2}, {1, 0, 2}, 1}};

/// All operands permuted in one way, without gaps, run as they lie, others are copied: the same elements, and the same gradients.
TEST(Layout, OpsByIndexOfPermutedOperandsAreThoseOfCopies) {
  for (const Ints& sizes : {Ints{4, 5, 3}, Ints{1, 6, 7}, Ints{5, 1, 4}, Ints{13, 30, 2}, Ints{0, 3, 2}}) {
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::int64}) {
      const auto draw = [&](const Ints& of) { return to(randint(-9, 10, of), dtype); };
      const Tensor x = draw(sizes), y = draw(sizes);
      for (const int64_t dim : {0, 1, 2}) {
        const int64_t size = x.size(dim);
        const Ints fewer{std::max<int64_t>(sizes[0] - 1, 0), sizes[1], sizes[2]};
        const Tensor all = randint(0, std::max<int64_t>(size, 1), size == 0 ? Ints{0, 0, 0} : sizes),
                     some = randint(0, std::max<int64_t>(size, 1), size == 0 ? Ints{0, 0, 0} : fewer),
                     places = randint(0, std::max<int64_t>(size, 1), {size == 0 ? 0 : 2 * size});
        Dims more(x.sizes());
        more[static_cast<size_t>(dim)] = places.numel();
        const Tensor added = draw(Ints(more));
        for (const Lay& lay : kLays) {
          for (const Lay& other : kLays) {
            SCOPED_TRACE(testing::Message() << lay.name << ", " << other.name << ", dim " << dim << ", numel " << x.numel() << " "
                                            << name(dtype));
            const auto same = [&](const char* what, const auto& call) {
              const auto grad_of = [&](const Tensor& a, const Tensor& b, Tensor result) {
                std::vector<Tensor> wanted{a, b};
                return grad({result}, wanted, {.grad_outputs = {to(result * 2.0, dtype).detach()}, .allow_unused = true});
              };
              const auto leaf = [&](const Tensor& t) { return is_floating(dtype) ? t.detach().requires_grad_() : t.detach(); };
              const Tensor a = leaf(lay(x)), b = leaf(other(y)), c = leaf(x), d = leaf(y);
              const Tensor got = call(a, b, lay, other), want = call(c, d, kLays[0], kLays[0]);
              ASSERT_EQ(got.sizes(), want.sizes()) << what;
              ASSERT_EQ(got.to_vector(), want.to_vector()) << what;
              if (!is_floating(dtype)) return;
              const std::vector<Tensor> g = grad_of(a, b, got), h = grad_of(c, d, want);
              for (size_t i = 0; i < 2; ++i) {
                ASSERT_EQ(g[i].defined(), h[i].defined()) << what;
                if (g[i].defined()) ASSERT_EQ(g[i].to_vector(), h[i].to_vector()) << what << ", gradient " << i;
              }
            };
            using T = const Tensor&;
            using L = const Lay&;
            same("index_select", [&](T a, T, L, L) { return index_select(a, dim, places); });
            same("index_add", [&](T a, T b, L, L l) { return index_add(a, dim, places, l(added)) + b; });
            same("index_add of both", [&](T a, T b, L, L) { return index_add(a, dim, randint(0, 1, {size}), b); });
            same("cat", [&](T a, T b, L, L) { return cat({a, b, a}, dim); });
            same("stack", [&](T a, T b, L, L) { return stack({a, b}, dim); });
            same("stack last", [&](T a, T b, L, L) { return stack({a, b}, -1); });
            for (const Tensor& index : {all, some}) {
              same("gather", [&](T a, T, L, L l) { return gather(a, dim, l(index)); });
              same("scatter", [&](T a, T b, L, L l) { return scatter(a, dim, l(index), b); });
              same("scatter_add", [&](T a, T b, L, L l) { return scatter_add(a, dim, l(index), b); });
            }
          }
        }
      }
    }
  }
}

/// Elements of x lie along dim 0 in runs: slices along it would be moved one by one, and are copied.
TEST(Layout, ResultsByIndexLieAsPermutedOperandsDo) {
  const Tensor x = permuted(), y = permuted(), at = permute(randint(0, 3, {4, 5, 3}), {2, 0, 1}), few = randint(0, 3, {4}),
               gaps = slice(permute(randn({4, 5, 6}), {2, 0, 1}), 0, 0, 3);
  ASSERT_EQ(gaps.sizes(), x.sizes());
  for (const Tensor& result : {scatter(x, 0, at, y), scatter_add(x, 0, at, y), index_add(x, 1, few, y), index_sum(x, 1, few, 4)})
    EXPECT_EQ(result.strides(), x.strides());
  for (const Tensor& result : {gather(x, 0, at), scatter(x, 0, at, contiguous(y)), scatter_add(gaps, 0, at, y),
                               scatter_add(x, 0, at, gaps), cat({x, y}, 0), stack({x, y}), index_select(x, 1, few)})
    EXPECT_TRUE(result.is_contiguous());
}

TEST(Layout, RepeatedElementsAreWrittenOut) {
  for (const int64_t times : {1, 2, 3, 15, 16, 100}) {
    for (const DType dtype : {DType::uint8, DType::bfloat16, DType::float32, DType::float64}) {
      const Tensor x = to(randint(0, 100, {3, 70}), dtype), each = repeat_interleave(x, times, 1),
                   rows = contiguous(expand(unsqueeze(x, -1), {3, 70, times}));
      const Tensor turned = transpose(contiguous(transpose(x, 0, 1)), 0, 1);
      EXPECT_EQ(repeat_interleave(turned, times, 1).to_vector(), each.to_vector());
      const Values values = x.to_vector(), repeated = each.to_vector();
      ASSERT_EQ(repeated.size(), values.size() * static_cast<size_t>(times));
      for (size_t i = 0; i < repeated.size(); ++i) ASSERT_EQ(repeated[i], values[i / static_cast<size_t>(times)]);
      EXPECT_EQ(rows.to_vector(), repeated);
    }
  }
}

TEST(Layout, TrianglesOfAnyDiagonal) {
  const Tensor x = to(randint(1, 100, {2, 5, 7}), DType::int32);
  for (const int64_t diagonal :
       {INT64_MIN, int64_t{-9}, int64_t{-4}, int64_t{-1}, int64_t{0}, int64_t{3}, int64_t{6}, int64_t{7}, INT64_MAX}) {
    const Values all = x.to_vector(), low = tril(x, diagonal).to_vector(), high = triu(x, diagonal).to_vector();
    for (int64_t i = 0; i < 70; ++i) {
      const int64_t beyond = i % 7 - i / 7 % 5;
      const auto at = static_cast<size_t>(i);
      ASSERT_EQ(low[at], beyond <= diagonal ? all[at] : 0) << i << " " << diagonal;
      ASSERT_EQ(high[at], beyond >= diagonal ? all[at] : 0) << i << " " << diagonal;
    }
  }
}

/// The groups of a matrix are normalised as rows, those of more dims by segments: one position is a matrix.
TEST(Layout, GroupNormOfAMatrixIsThatOfOnePosition) {
  const Tensor x = to(randn({6, 12}), DType::float64), weight = to(randn({12}), DType::float64),
               bias = to(randn({12}), DType::float64);
  const Values rows = group_norm(x, 3, weight, bias).to_vector(),
               positions = group_norm(unsqueeze(x, 1), 3, weight, bias).to_vector();
  for (size_t i = 0; i < rows.size(); ++i) ASSERT_NEAR(rows[i], positions[i], 1e-12);
}

/// Tensors of [5, 18, 40] whose elements lie in as many ways: kept dims that merge, that do not, gaps, expanded dims, backwards.
std::vector<Tensor> views(DType dtype) {
  const auto draw = [&](const Ints& sizes) { return to(randn(sizes), dtype); };
  return {draw({5, 18, 40}),
          permute(draw({18, 5, 40}), {1, 0, 2}),
          permute(draw({18, 40, 5}), {2, 0, 1}),
          permute(draw({40, 5, 18}), {1, 2, 0}),
          slice(draw({5, 18, 97}), 2, 1, 41),
          slice(slice(draw({5, 31, 43}), 1, 7, 25), 2, 3, 43),
          slice(permute(draw({18, 11, 40}), {1, 0, 2}), 0, 2, 7),
          expand(draw({5, 1, 40}), {5, 18, 40}),
          expand(draw({1, 18, 40}), {5, 18, 40}),
          expand(draw({5, 18, 1}), {5, 18, 40}),
          flip(draw({5, 18, 40}), {1}),
          slice(draw({5, 36, 80}), 1, 0, 36, 2).slice(2, 0, 80, 2)};
}

/// Kernels of columns go over several operands at once, whose kept dims may merge in one and not in another.
TEST(Layout, OpsAlongADimOfViewsAreThoseOfCopies) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float64}) {
    const double bound = dtype == DType::float64 ? 1e-12 : dtype == DType::float32 ? 2e-5 : 2e-2;
    const std::vector<Tensor> inputs = views(dtype), gradients = views(dtype);
    for (size_t i = 0; i < inputs.size(); ++i) {
      for (const int64_t dim : {0, 1, 2}) {
        SCOPED_TRACE(testing::Message() << "view " << i << ", dim " << dim << ", dtype " << static_cast<int>(dtype));
        const Tensor x = inputs[i], copy = x.clone().contiguous();
        const auto near = [&](const char* what, const Tensor& got, const Tensor& want) {
          const Values a = got.to_vector(), b = want.to_vector();
          ASSERT_EQ(a.size(), b.size()) << what;
          for (size_t at = 0; at < a.size(); ++at) ASSERT_NEAR(a[at], b[at], bound * (1 + std::abs(b[at]))) << what << " " << at;
        };
        near("softmax", softmax(x, dim), softmax(copy, dim));
        near("log_softmax", log_softmax(x, dim), log_softmax(copy, dim));
        near("cumsum", cumsum(x, dim), cumsum(copy, dim));
        near("logsumexp", logsumexp(x, dim), logsumexp(copy, dim));
        near("sum", sum(x, dim), sum(copy, dim));
        near("amax", amax(x, dim), amax(copy, dim));
        near("amin", amin(x, dim), amin(copy, dim));
        near("norm", norm(x, dim), norm(copy, dim));
        near("var", var(x, dim), var(copy, dim));
        near("prod", prod(x, dim), prod(copy, dim));
        EXPECT_EQ(argmax(x, dim).to_vector(), argmax(copy, dim).to_vector());
        EXPECT_EQ(argmin(x, dim).to_vector(), argmin(copy, dim).to_vector());
        near("max", std::get<0>(max(x, dim)), std::get<0>(max(copy, dim)));
        const Tensor y = softmax(copy, dim), z = log_softmax(copy, dim);
        for (const Tensor& g : gradients) {
          const Tensor same = g.clone().contiguous();
          near("softmax_backward", softmax_backward(g, y, dim), softmax_backward(same, y, dim));
          near("softmax_backward of a view", softmax_backward(g, x, dim), softmax_backward(same, copy, dim));
          near("log_softmax_backward", log_softmax_backward(g, z, dim), log_softmax_backward(same, z, dim));
        }
      }
    }
  }
}

TEST(Layout, ExtremaAlongADimOfNoColumnsAreNone) {
  const Tensor x = slice(randn({3, 7, 20}), 1, 0, 0).transpose(0, 1);  // [0, 3, 20]
  EXPECT_EQ(std::get<0>(max(x, 1)).sizes(), (Dims{0, 20}));
  EXPECT_EQ(argmax(x, 2).sizes(), (Dims{0, 3}));
  const Tensor none = slice(zeros({0, 7, 20}), 1, 0, 0);  // [0, 0, 20]
  EXPECT_EQ(std::get<0>(max(none, 1)).sizes(), (Dims{0, 20}));
  EXPECT_EQ(argmin(none, 1).sizes(), (Dims{0, 20}));
}

}  // namespace
}  // namespace deckle
