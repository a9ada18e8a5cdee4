// Products by letters, linear systems and convolution of images beside plain loops in float64.
#include <gtest/gtest.h>

#include <vector>

#include "deckle/core/from_data.h"
#include "deckle/ops/compare.h"
#include "deckle/ops/generated/arrange.h"
#include "deckle/ops/generated/conv.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/linalg.h"
#include "deckle/ops/generated/matmul.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/support/expect.h"
#include "tests/support/random.h"

namespace deckle {
namespace {

using namespace testing;

TEST(Einsum, IsASumOverEveryLetterThatDoesNotRemain) {
  const Tensor a = random_tensor({2, 3, 4}), b = random_tensor({4, 2, 5}), c = random_tensor({5, 3});
  const auto x = [](const Tensor& t, std::initializer_list<int64_t> at) {
    int64_t place = 0, dim = 0;
    for (const int64_t i : at) place = place * t.size(dim++) + i;
    return t.data<double>()[place];
  };
  std::vector<double> expected;
  for (int64_t k = 0; k < 3; ++k) {
    for (int64_t i = 0; i < 2; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < 4; ++j) {
        for (int64_t l = 0; l < 5; ++l) sum += x(a, {i, k, j}) * x(b, {j, i, l}) * x(c, {l, k});
      }
      expected.push_back(sum);
    }
  }
  EXPECT_TRUE(allclose(einsum("ikj,jil,lk->ki", {a, b, c}), view(tensor(expected), {3, 2}), 1e-12, 1e-12));
  EXPECT_TRUE(allclose(einsum("ij,jk", {a.select(0, 0), b.select(1, 0)}), mm(a.select(0, 0), b.select(1, 0)), 1e-12));
  EXPECT_TRUE(allclose(einsum("ba", {c}), t(c), 0, 0));
  EXPECT_TRUE(allclose(einsum("ii", {mm(t(c), c)}), sum(square(c)), 1e-12));
  EXPECT_EQ(error_of([&] { einsum("ij,k", {c}); }), "einsum: 'ij,k' names 2 operands, 1 are given (expected as many)");
  EXPECT_EQ(error_of([&] { einsum("ij,jk", {c, c}); }), "einsum: 'j' has sizes 3 and 5 in 'ij,jk' (expected one size, or 1)");
  EXPECT_EQ(error_of([&] { einsum("i1", {c}); }), "einsum: 'i1' has '1' (expected letters, commas, ellipses and one ->)");
  EXPECT_TRUE(allclose(einsum("...ij,jk->...ik", {a, b.select(1, 0)}), matmul(a, b.select(1, 0)), 1e-12));
}

TEST(Integers, AreMultipliedExactly) {
  const int64_t large = (int64_t{1} << 53) + 1;
  const Tensor a = tensor({{large, int64_t{2}}, {int64_t{-3}, int64_t{4}}}), b = tensor({{int64_t{1}}, {int64_t{5}}});
  EXPECT_EQ(mm(a, b).to_vector<int64_t>(), (std::vector<int64_t>{large + 10, 17}));
  EXPECT_EQ(mm(t(a), b).to_vector<int64_t>(), (std::vector<int64_t>{large - 15, 22}));
  EXPECT_EQ(name(matmul(a.to(DType::int32), b.to(DType::int32)).dtype()), "int32");
}

TEST(Systems, AreSolvedToTheRoundingOfTheirDtype) {
  for (const int64_t n : {1, 2, 5, 33}) {
    const Tensor a = random_tensor({3, n, n}) + eye(n, DType::float64) * 4.0, b = random_tensor({3, n, 2});
    EXPECT_TRUE(allclose(matmul(a, solve(a, b)), b, 1e-8, 1e-8)) << n;
    EXPECT_TRUE(allclose(matmul(a.to(DType::float32), solve(a.to(DType::float32), b.to(DType::float32))), b, 1e-3, 1e-3)) << n;
    EXPECT_TRUE(allclose(solve(a, select(b, 2, 0)), select(solve(a, b), 2, 0), 1e-8, 1e-10)) << n;
    EXPECT_TRUE(allclose(matmul(inverse(a), a), expand(eye(n, DType::float64), a.sizes()), 1e-8, 1e-8)) << n;
    const Tensor even = matmul(a, transpose(a, -2, -1)), factor = cholesky(even);
    EXPECT_TRUE(allclose(matmul(factor, transpose(factor, -2, -1)), even, 1e-9, 1e-9)) << n;
    EXPECT_TRUE(equal(factor, tril(factor))) << n;
  }
  EXPECT_EQ(error_of([] {
              inverse(ones({2, 2, 2}));
            }),
            "inverse: matrix 0 of self is singular: pivot 1 is 0 (expected a matrix with an inverse)");
  EXPECT_EQ(error_of([] { cholesky(neg(eye(2))); }),
            "cholesky: matrix 0 of self is not positive definite: its leading minor 1 is not (expected one that is)");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  expect_error([&] { cholesky(tensor({{nan, 0.0}, {0.0, 9.0}})); }, "its leading minor 1 is not");
  expect_error([&] { cholesky(tensor({{4.0, 0.0, 0.0}, {0.0, nan, 0.0}, {0.0, 0.0, 9.0}})); }, "its leading minor 2 is not");
}

TEST(Images, AreConvolvedAsByFourLoops) {
  struct Form {
    int64_t height, width, stride, dilation, groups;
    Padding padding;
  };
  const Form forms[] = {{5, 4, 1, 1, 1, Padding::valid}, {7, 6, 2, 1, 1, Padding::same}, {6, 9, 3, 2, 2, Padding::same},
                        {8, 5, 2, 1, 2, Padding::valid}, {4, 4, 1, 3, 1, Padding::same}, {1, 2, 1, 1, 1, Padding::valid}};
  for (const Form& form : forms) {
    const Tensor x = random_tensor({2, form.height, form.width, 4}), w = random_tensor({6, 4 / form.groups, 3, 2}),
                 bias = random_tensor({6});
    const Tensor got =
        conv2d(x, w, bias, {.stride = form.stride, .padding = form.padding, .dilation = form.dilation, .groups = form.groups});
    const auto geometry = [&](int64_t length, int64_t size) {
      const int64_t reach = (size - 1) * form.dilation + 1;
      if (form.padding == Padding::valid)
        return std::pair<int64_t, int64_t>{length < reach ? 0 : (length - reach) / form.stride + 1, 0};
      return std::pair<int64_t, int64_t>{(length + form.stride - 1) / form.stride, (reach - 1) / 2};
    };
    const auto [rows, up] = geometry(form.height, 3);
    const auto [columns, left] = geometry(form.width, 2);
    ASSERT_EQ(to_string(got.sizes()), to_string(Dims{2, rows, columns, 6}));
    for (int64_t i = 0; i < got.numel(); ++i) {
      const int64_t out = i % 6, column = i / 6 % columns, row = i / 6 / columns % rows, b = i / 6 / columns / rows;
      const int64_t in = 4 / form.groups, first = out / (6 / form.groups) * in;
      double sum = bias.data<double>()[out];
      for (int64_t y = 0; y < 3; ++y) {
        for (int64_t z = 0; z < 2; ++z) {
          const int64_t h = row * form.stride - up + y * form.dilation, v = column * form.stride - left + z * form.dilation;
          if (h < 0 || h >= form.height || v < 0 || v >= form.width) continue;
          for (int64_t c = 0; c < in; ++c)
            sum += x.data<double>()[((b * form.height + h) * form.width + v) * 4 + first + c] *
                   w.data<double>()[((out * in + c) * 3 + y) * 2 + z];
        }
      }
      ASSERT_NEAR(got.data<double>()[i], sum, 1e-12);
    }
  }
}

TEST(Norms, OfSeveralDimsAreThoseOfTheDimsAsOne) {
  const Tensor x = random_tensor({2, 3, 4}), weight = random_tensor({3, 4}), bias = random_tensor({3, 4});
  EXPECT_TRUE(allclose(layer_norm(x, {3, 4}, weight, bias),
                       view(layer_norm(view(x, {2, 12}), view(weight, {12}), view(bias, {12})), {2, 3, 4}), 0, 0));
  EXPECT_EQ(error_of([&] {
              layer_norm(x, {4, 3});
            }),
            "layer_norm: the sizes to normalise are [4, 3] and a tensor has shape [2, 3, 4] (expected its last dims)");
}

}  // namespace
}  // namespace deckle
