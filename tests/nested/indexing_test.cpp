#include "deckle/nested/indexing.h"

#include "deckle/nested/generated/index.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/nested/padding.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "tests/nested/support.h"

namespace deckle {
namespace {

using namespace testing;

const std::vector<int64_t> kLengths = {3, 0, 2, 4}, kPicks = {2, 0, 5, 1};

/// Positions in components of kLengths, [kPicks rows].
NestedTensor positions(DType dtype = DType::int64) {
  const NestedTensor index = random_indices(kPicks, 2);
  return index.to(dtype);
}

TEST(NestedGather, RowsOfTheirOwnComponent) {
  const NestedTensor x = random_nested(kLengths, {3});
  for (const DType dtype : {DType::int64, DType::int32}) {
    const NestedTensor index = positions(dtype);
    expect_components(index_select(x, index), 4, [&](int64_t b) { return index_select(x[b], 0, index[b]); });
    const NestedTensor wide = unsqueeze(index, 2);
    expect_components(gather(x, 1, wide), 4, [&](int64_t b) { return gather(x[b], 0, wide[b]); });
  }
  const NestedTensor columns = NestedTensor(random_indices(kLengths, 3).values().unsqueeze(1), x.ragged());
  expect_components(gather(x, 2, columns), 4, [&](int64_t b) { return gather(x[b], 1, columns[b]); });
  const NestedTensor index = positions();
  expect_gradients([&](const NestedTensor& a) { return index_select(square(a), index); }, x);
  expect_gradients([&](const NestedTensor& a) { return gather(square(a), 1, unsqueeze(index, 2)); }, x);
  expect_error(
      [&] {
        index_select(random_nested({1, 1, 1, 1}, {2}), NestedTensor::from_lengths(integers({0, 3}), {1, 1, 0, 0}));
      },
      "index 3 is out of range for component 1, of length 1");
}

TEST(NestedScatter, AddsInTheirOwnComponent) {
  const NestedTensor x = random_nested(kLengths, {3}), index = positions(), source = random_nested(kPicks, {3});
  expect_components(index_add(x, index, source), 4, [&](int64_t b) { return index_add(x[b], 0, index[b], source[b]); });
  const NestedTensor wide = unsqueeze(index, 2);
  const auto scatter = [&](const NestedTensor& a, const NestedTensor& s) { return scatter_add(a, 1, wide, s); };
  expect_components(scatter(x, source), 4, [&](int64_t b) { return scatter_add(x[b], 0, wide[b], source[b]); });
  expect_gradients([&](const NestedTensor& a, const NestedTensor& s) { return square(scatter(a, s)); }, std::tuple(x, source));
  for (const bool accumulate : {false, true}) {
    const auto put = [&](const NestedTensor& a, const NestedTensor& s) { return index_put(a, {index}, s, accumulate); };
    expect_components(put(x, source), 4, [&](int64_t b) {
      const Tensor want = x[b].clone();  // one after another
      for (int64_t i = 0; i < index[b].numel(); ++i) {
        const Tensor row = want[index[b][i].item<int64_t>()];
        row.copy_(accumulate ? row + source[b][i] : source[b][i]);
      }
      return want;
    });
    expect_gradients([&](const NestedTensor& a, const NestedTensor& s) { return square(put(a, s)); }, std::tuple(x, source));
  }
}

TEST(NestedIndexSelect, SamePositionsOfAllOrWholeComponents) {
  const NestedTensor x = random_nested({3, 2, 4}, {2});
  const Tensor index = integers({1, 0, 1});
  expect_components(index_select(x, 1, index), 3, [&](int64_t b) { return index_select(x[b], 0, index); });
  expect_components(index_select(x, 2, index), 3, [&](int64_t b) { return index_select(x[b], 1, index); });
  const std::vector<int64_t> order = {2, 2, 0};
  expect_components(index_select(x, 0, integers({2, 2, 0})), 3, [&](int64_t b) { return x[order[static_cast<size_t>(b)]]; });
  expect_gradients([](const NestedTensor& a) { return square(index_select(a, 0, integers({2, 2, 0}))); }, x);
  expect_error([&] { index_select(x, 1, integers({2})); }, "index 2 is out of range for dim 1 of component 1, of length 2");
}

TEST(NestedMaskedSelect, KeepsTheRaggedness) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, {3}), rows = random_mask(lengths), elements = random_mask(lengths, {3});
    expect_components(masked_select(x, rows), x.components(), [&](int64_t b) { return masked_select(x[b], rows[b]); });
    expect_components(masked_select(x, elements), x.components(), [&](int64_t b) { return masked_select(x[b], elements[b]); });
  }
  const NestedTensor x = random_nested({3, 0, 2}, {2}), mask = random_mask({3, 0, 2});
  expect_gradients([&](const NestedTensor& a) { return masked_select(square(a), mask); }, x);
  expect_components(where(unsqueeze(mask, 2), x, 2.0), 3, [&](int64_t b) { return where(mask[b].unsqueeze(1), x[b], 2.0); });
  expect_gradients([&](const NestedTensor& a) { return masked_fill(square(a), unsqueeze(mask, 2), 1.5); }, x);
}

TEST(MaskedSelect, EqualsALoop) {
  const Tensor x = random_tensor({4, 3});
  const Tensor mask = random_mask({4}, {3}).values();
  std::vector<double> want;
  for (int64_t i = 0; i < 12; ++i) {
    if (mask.to_vector()[static_cast<size_t>(i)] != 0) want.push_back(x.to_vector()[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(masked_select(x, mask).to_vector(), want);
}

TEST(NestedEmbedding, LooksUpAndSumsBags) {
  const Tensor weight = random_tensor({7, 3});
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor indices = random_indices(lengths, 7), scales = random_nested(lengths, {});
    expect_components(embedding(weight, indices), indices.components(), [&](int64_t b) { return embedding(weight, indices[b]); });
    for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
      expect_components(embedding_bag(weight, indices, Tensor(), mode), indices.components(), [&](int64_t b) {
        const Tensor zero = zeros({3}, DType::float64);
        return lengths[static_cast<size_t>(b)] == 0 ? zero : embedding_bag(weight, indices[b].unsqueeze(0), {}, mode)[0];
      });
    }
    expect_components(embedding_bag(weight, indices, scales, BagMode::sum), indices.components(),
                      [&](int64_t b) { return sum(embedding(weight, indices[b]) * scales[b].unsqueeze(1), Ints{0}); });
  }
  const NestedTensor indices = random_indices({3, 0, 2}, 7), scales = random_nested({3, 0, 2}, {});
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max})
    expect_gradients([&](const Tensor& w) { return embedding_bag(square(w), indices, Tensor(), mode); }, weight);
  expect_gradients([&](const Tensor& w, const NestedTensor& s) { return embedding_bag(w, indices, s, BagMode::sum); },
                   std::tuple(weight, scales));
}

TEST(NestedOneHot, OfRaggedClasses) {
  const NestedTensor classes = random_indices({3, 0, 2}, 5);
  expect_components(one_hot(classes, 5), 3, [&](int64_t b) { return one_hot(classes[b], 5); });
}

TEST(NestedPadding, AnySideAnyValueAnyNumberOfRaggedDims) {
  const NestedTensor images = random_matrices({{2, 3}, {3, 1}, {0, 4}, {1, 2}}, {2});
  for (const PadSide side : {PadSide::right, PadSide::left}) {
    const PadOptions options{.side = side, .value = -7.0, .sizes = {0, 6}};
    const Tensor padded = to_padded(images, options), mask = padding_mask(images, options);
    ASSERT_EQ(to_string(padded.sizes()), "[4, 3, 6, 2]");
    for (int64_t b = 0; b < 4; ++b) {
      const int64_t rows = images[b].size(0), columns = images[b].size(1);
      const int64_t top = side == PadSide::left ? 3 - rows : 0, first = side == PadSide::left ? 6 - columns : 0;
      for (int64_t i = 0; i < 3; ++i) {
        for (int64_t j = 0; j < 6; ++j) {
          const bool inside = i >= top && i < top + rows && j >= first && j < first + columns;
          EXPECT_EQ(mask[b][i][j].item() != 0, inside);
          for (int64_t c = 0; c < 2; ++c)
            EXPECT_EQ(padded[b][i][j][c].item(), inside ? images[b][i - top][j - first][c].item() : -7.0);
        }
      }
    }
    expect_equal(from_padded(padded, images.ragged(), side).values(), images.values());
    expect_gradients([&](const NestedTensor& x) { return to_padded(square(x), options); }, images);
    expect_gradients([&](const Tensor& x) { return from_padded(square(x), images.ragged(), side); }, padded);
  }
  expect_error([&] { to_padded(images, {.sizes = {2}}); }, "a component of length 3 in dim 1 does not fit the padded size 2");
}

}  // namespace
}  // namespace deckle
