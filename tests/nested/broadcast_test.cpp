// Broadcasting of nested operands: dims that one lacks, or has with size 1 throughout, are expanded.
#include "deckle/nested/generated/index.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/nested/generated/reduce.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/operators.h"
#include "tests/nested/support.h"

namespace deckle {
namespace {

using namespace testing;

using Sizes = std::vector<std::pair<int64_t, int64_t>>;
const Sizes kImages = {{2, 3}, {3, 1}, {0, 4}, {4, 2}};

TEST(NestedBroadcast, DimsThatAReductionKept) {
  for (const Sizes& sizes : {kImages, Sizes{}, Sizes{{0, 0}, {0, 2}}, Sizes{{1, 5}}, Sizes{{1, 3}, {1, 2}}}) {
    const NestedTensor x = random_matrices(sizes, {2});
    for (const int64_t dim : {1, 2}) {
      const auto centred = [&](const auto& a, int64_t along) { return a - sum(a, {along}, true) * 0.5; };
      expect_components(centred(x, dim), x.components(), [&](int64_t b) { return centred(x[b], dim - 1); });
      expect_components(sum(x, {dim}, true) / x, x.components(), [&](int64_t b) { return sum(x[b], {dim - 1}, true) / x[b]; });
    }
  }
  const auto normalized = [](const NestedTensor& a) { return square(a) / sum(exp(a), {1}, true) - sum(a, {2}, true); };
  expect_gradients(normalized, random_matrices(kImages));
}

TEST(NestedBroadcast, RowsBesideColumns) {
  const NestedTensor rows = random_matrices({{2, 1}, {3, 1}, {0, 1}}, {2}),
                     columns = random_matrices({{1, 3}, {1, 0}, {1, 4}}, {2});
  const auto f = [](const NestedTensor& a, const NestedTensor& b) { return exp(a) * b; };
  expect_components(f(rows, columns), 3, [&](int64_t b) { return exp(rows[b]) * columns[b]; });
  expect_components(f(columns, rows), 3, [&](int64_t b) { return exp(columns[b]) * rows[b]; });
  const NestedTensor more = f(columns, random_nested({2, 3, 0}, {2}));  // a dim that is lacking beside one of size 1
  EXPECT_EQ(to_string(more), "NestedTensor[3, 0..3 (mean 2), 0..4 (mean 2), 2] float64, 6 rows");
  expect_gradients(f, std::tuple(rows, columns));
}

TEST(NestedBroadcast, IntoWhatIsWrittenInPlace) {
  const NestedTensor x = clone(random_matrices(kImages, {2})), before = clone(x), row_sums = sum(x, {2}, true),
                     rows = random_nested({2, 3, 0, 4}, {2});
  sub_(x, row_sums);
  expect_components(x, 4, [&](int64_t b) { return before[b] - sum(before[b], {1}, true); });
  copy_(x, rows);
  expect_components(x, 4, [&](int64_t b) { return expand(rows[b].unsqueeze(1), x[b].sizes()); });
  // Three rows of three: values [3, 3] and [3] would broadcast as columns.
  const NestedTensor square_values = clone(random_nested({2, 1}, {3})), one_each = random_nested({2, 1}, {});
  copy_(square_values, one_each);
  expect_components(square_values, 2, [&](int64_t b) { return expand(one_each[b].unsqueeze(1), square_values[b].sizes()); });
  expect_error([&] { sub_(row_sums, x); },
               "sub_: ragged shapes differ: self has 4 components of lengths [2x1, 3x1, 0x1, 4x1], other has");
}

TEST(NestedBroadcast, OnlySizeOneInEveryComponentIsRepeated) {
  const NestedTensor x = random_matrices({{2, 3}, {3, 2}});
  expect_error(
      [&] {
        x + random_matrices({{2, 1}, {3, 2}});
      },
      "ragged shapes differ: self has 2 components of lengths [2x3, 3x2], other has");
  expect_error([&] { x + random_matrices({{2, 1}, {4, 1}}); }, "ragged shapes differ");
  expect_error([&] { x + random_matrices({{2, 1}, {3, 1}, {1, 1}}); }, "ragged shapes differ");
}

}  // namespace
}  // namespace deckle
