#include "deckle/nested/structure.h"

#include <limits>

#include "deckle/nested/generated/arrange.h"
#include "deckle/nested/generated/index.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/nested/generated/shape.h"
#include "deckle/ops/generated/arrange.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/shape.h"
#include "tests/nested/support.h"

namespace deckle {
namespace {

using namespace testing;

const std::vector<std::pair<int64_t, int64_t>> kImages = {{2, 3}, {3, 1}, {0, 4}, {1, 2}};

TEST(NestedSelect, OnePositionOfEachComponent) {
  const NestedTensor x = random_nested({3, 1, 5}, {2, 3}), images = random_matrices(kImages, {2});
  expect_components(select(x, 1, -1), 3, [&](int64_t b) { return x[b].select(0, -1); });
  expect_components(select(x, 1, integers({2, 0, -3})), 3, [&](int64_t b) {
    return x[b].select(0, std::vector<int64_t>{2, 0, -3}[static_cast<size_t>(b)]);
  });
  expect_components(select(x, 3, 1), 3, [&](int64_t b) { return x[b].select(2, 1); });
  expect_components(select(images, 2, 0), 4, [&](int64_t b) { return images[b].select(1, 0); });
  expect_equal(select(x, 0, -1).dense(), x[2]);
  expect_gradients([](const NestedTensor& a) { return select(square(a), 1, -1); }, random_nested({2, 1, 3}, {2}));
  expect_error(
      [&] {
        select(random_nested({2, 0}, {1}), 1, 0);
      },
      "select: position 0 is out of range for dim 1 of component 1, of length 0");
  expect_error([&] { select(x, 1, integers({0, 0})); }, "index has 2 elements for 3 components");
}

TEST(NestedSlice, BoundsAsInPythonForEachComponent) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, {2, 3});
    for (const auto& [start, end, step] :
         {std::tuple(1, 4, 1), std::tuple(-2, 100, 1), std::tuple(0, -1, 2), std::tuple(3, 1, 1)}) {
      expect_components(slice(x, 1, start, end, step), x.components(),
                        [&, start = start, end = end, step = step](int64_t b) { return x[b].slice(0, start, end, step); });
      expect_components(slice(x, 2, start, end, step), x.components(),
                        [&, start = start, end = end, step = step](int64_t b) { return x[b].slice(1, start, end, step); });
    }
    const NestedTensor some = slice(x, 0, 1, 100, 2);
    expect_components(some, x.components() / 2, [&](int64_t b) { return x[1 + 2 * b]; });
    expect_components(slice(x, 0, -2, 100), std::min<int64_t>(2, x.components()),
                      [&](int64_t b) { return x[std::max<int64_t>(0, x.components() - 2) + b]; });
  }
  const NestedTensor images = random_matrices(kImages, {2});
  expect_components(slice(images, 2, 1, 3), 4, [&](int64_t b) { return images[b].slice(1, 1, 3); });
  expect_components(slice(images, 1, 0, 2), 4, [&](int64_t b) { return images[b].slice(0, 0, 2); });
  expect_gradients([](const NestedTensor& a) { return slice(square(a), 1, 1, 3); }, random_nested({2, 0, 4}, {2}));
}

TEST(NestedNarrow, PositionsOfTheirOwnForEachComponent) {
  const NestedTensor x = random_nested({3, 0, 5}, {2});
  const auto f = [](const NestedTensor& a) { return narrow(a, 1, integers({1, 0, -4}), integers({2, 0, 3}, DType::int32)); };
  const std::vector<int64_t> starts = {1, 0, 1}, lengths = {2, 0, 3};
  expect_components(f(x), 3,
                    [&](int64_t b) { return narrow(x[b], 0, starts[static_cast<size_t>(b)], lengths[static_cast<size_t>(b)]); });
  expect_gradients([&](const NestedTensor& a) { return f(square(a)); }, x);
  expect_components(narrow(x, 2, 1, 1), 3, [&](int64_t b) { return narrow(x[b], 1, 1, 1); });
  expect_components(narrow(x, 0, 1, 2), 2, [&](int64_t b) { return x[b + 1]; });
  expect_error([&] { narrow(x, 1, 0, 2); }, "2 positions from 0 on are more than dim 1 of component 1 has, of length 0");
  expect_error([&] { narrow(x, 2, integers({0}), integers({1})); }, "dim 2 of shape [3, 0..5, 2] is not ragged");
}

TEST(NestedSplit, PiecesOfEveryDim) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, {4});
    const std::vector<NestedTensor> chunks = chunk(x, 3, 1), splits = split(x, 2, 1), columns = chunk(x, 2, 2);
    ASSERT_EQ(chunks.size(), 3u);
    for (int64_t b = 0; b < x.components(); ++b) {
      const int64_t length = lengths[static_cast<size_t>(b)], size = (length + 2) / 3;
      for (int64_t i = 0; i < 3; ++i)
        expect_equal(chunks[static_cast<size_t>(i)][b], x[b].slice(0, i * size, std::min(length, (i + 1) * size)));
      for (size_t i = 0; i < splits.size(); ++i) {
        const auto start = std::min<int64_t>(length, 2 * static_cast<int64_t>(i));
        expect_equal(splits[i][b], x[b].slice(0, start, start + 2));
      }
      expect_equal(columns[1][b], x[b].slice(1, 2, 4));
    }
    if (x.components() >= 2) {
      const std::vector<NestedTensor> parts = split_with_sizes(x, {1, x.components() - 1}, 0);
      expect_components(parts[1], x.components() - 1, [&](int64_t b) { return x[b + 1]; });
    }
  }
  const NestedTensor same = random_nested({3, 3}, {2});
  expect_components(split_with_sizes(same, {1, 2}, 1)[1], 2, [&](int64_t b) { return same[b].slice(0, 1, 3); });
  const auto f = [](const NestedTensor& a) { return chunk(square(a), 2, 1); };
  expect_gradients(f, random_nested({3, 0, 2}, {2}));
  expect_error([&] { split_with_sizes(random_nested({3, 4}, {1}), {1, 2}, 1); }, "component 1 has length 4");
}

TEST(NestedUnbind, ComponentsAndRegularSlices) {
  const NestedTensor x = random_nested({3, 0, 2}, {2});
  const std::vector<NestedTensor> components = unbind(x, 0), columns = unbind(x, 2);
  ASSERT_EQ(components.size(), 3u);
  ASSERT_EQ(columns.size(), 2u);
  expect_equal(components[2].dense(), x[2]);
  expect_components(columns[1], 3, [&](int64_t b) { return x[b].select(1, 1); });
  expect_gradients([](const NestedTensor& a) { return unbind(square(a), 0); }, x);
  expect_error([&] { unbind(x, 1); }, "dim 1 is a ragged dim");
}

TEST(NestedCat, AlongTheBatchARaggedAndARegularDim) {
  for (const auto& lengths : ragged_patterns()) {
    std::vector<int64_t> others = lengths;
    std::reverse(others.begin(), others.end());
    const NestedTensor x = random_nested(lengths, {2}), y = random_nested(others, {2}), z = random_nested(lengths, {3});
    const int64_t components = x.components();
    expect_components(cat({x, y}, 0), 2 * components, [&](int64_t b) { return b < components ? x[b] : y[b - components]; });
    expect_components(cat({x, y, x}, 1), components, [&](int64_t b) { return cat({x[b], y[b], x[b]}, 0); });
    expect_components(cat({x, z}, -1), components, [&](int64_t b) { return cat({x[b], z[b]}, 1); });
  }
  const NestedTensor p = random_matrices(kImages), q = random_matrices({{2, 1}, {3, 0}, {0, 2}, {1, 5}});
  expect_components(cat({p, q}, 2), 4, [&](int64_t b) { return cat({p[b], q[b]}, 1); });
  const auto f = [](const NestedTensor& a, const NestedTensor& b) { return square(cat({a, b}, 1)); };
  expect_gradients(f, std::tuple(random_nested({2, 0, 1}, {2}), random_nested({0, 0, 3}, {2})));
  expect_error([&] { cat({p, q}, 1); }, "component 0 of tensor 1 has size 1 in dim 2, that of tensor 0 has 3");
}

TEST(NestedStack, NewDimsAfterAndBeforeTheRaggedOne) {
  const NestedTensor x = random_nested({3, 0, 2}, {2}), y = random_nested({3, 0, 2}, {2});
  expect_components(stack({x, y}, 2), 3, [&](int64_t b) { return stack({x[b], y[b]}, 1); });
  expect_components(stack({x, y}, -1), 3, [&](int64_t b) { return stack({x[b], y[b]}, -1); });
  expect_components(stack({x, y}, 1), 3, [&](int64_t b) { return stack({x[b], y[b]}, 0); });
  expect_gradients([](const NestedTensor& a, const NestedTensor& b) { return square(stack({a, b}, 1)); }, std::tuple(x, y));
  expect_error([&] { stack({x, y}, 0); }, "stack: new dim 0 is the batch");
}

TEST(NestedRoll, InsideEachComponent) {
  for (const auto& lengths : ragged_patterns()) {
    const NestedTensor x = random_nested(lengths, {2});
    for (const int64_t by : {0, 1, -2, 7}) {
      expect_components(roll(x, by, 1), x.components(), [&](int64_t b) { return roll(x[b], by, 0); });
      expect_components(roll(x, by, 0), x.components(),
                        [&](int64_t b) { return x[((b - by) % x.components() + x.components()) % x.components()]; });
    }
  }
  const NestedTensor x = random_nested({3, 0, 4}, {2});
  const std::vector<int64_t> by = {1, 5, -1};
  expect_components(roll(x, integers({1, 5, -1}), 1), 3, [&](int64_t b) { return roll(x[b], by[static_cast<size_t>(b)], 0); });
  expect_gradients([](const NestedTensor& a) { return roll(square(a), 1, 1); }, x);
}

TEST(NestedShift, MovesRowsAndFillsWhatComesIn) {
  const NestedTensor x = random_nested({3, 0, 2}, {2});
  for (const int64_t by : {-4, -1, 0, 2}) {
    expect_components(shift(x, by, 1, 0.5), 3, [&](int64_t b) {
      const int64_t length = x[b].size(0), kept = std::max<int64_t>(0, length - std::abs(by));
      const Tensor filler = full({length - kept, 2}, 0.5, DType::float64);
      return by >= 0 ? cat({filler, x[b].slice(0, 0, kept)}, 0) : cat({x[b].slice(0, length - kept, length), filler}, 0);
    });
  }
  expect_equal(shift(x, integers({1, 1, 1})).values(), shift(x, 1).values());
  expect_gradients([](const NestedTensor& a) { return shift(square(a), 1, 1, 2.0); }, x);
}

TEST(NestedTranspose, RaggedDimsAndRegularOnes) {
  const NestedTensor images = random_matrices(kImages, {2, 3}), x = random_nested({3, 0, 2}, {4, 2});
  expect_components(transpose(images, 1, 2), 4, [&](int64_t b) { return images[b].transpose(0, 1); });
  expect_components(transpose(x, 1, 2), 3, [&](int64_t b) { return x[b].transpose(0, 1); });
  expect_components(transpose(x, 1, 3), 3, [&](int64_t b) { return x[b].transpose(0, 2); });
  expect_components(transpose(x, -1, -2), 3, [&](int64_t b) { return x[b].transpose(1, 2); });
  expect_components(permute(images, {0, 3, 2, 4, 1}), 4, [&](int64_t b) { return images[b].permute({2, 1, 3, 0}); });
  expect_components(permute(images, {0, 3, 4, 1, 2}), 4, [&](int64_t b) { return images[b].permute({2, 3, 0, 1}); });
  expect_components(permute(x, {0, 3, 1, 2}), 3, [&](int64_t b) { return x[b].permute({2, 0, 1}); });
  const NestedTensor tall = random_nested({150, 0, 33}, {19, 1});
  expect_components(transpose(tall, 1, 2), 3, [&](int64_t b) { return tall[b].transpose(0, 1); });
  EXPECT_TRUE(transpose(x, 2, 3).values().storage() == x.values().storage());
  expect_gradients([](const NestedTensor& a) { return transpose(square(a), 1, 2); }, random_matrices({{2, 3}, {0, 4}, {1, 2}}));
  expect_gradients([](const NestedTensor& a) { return permute(square(a), {0, 3, 1, 2}); }, random_nested({2, 0, 1}, {2, 3}));
  expect_error([&] { transpose(x, 0, 1); }, "the batch stays first");
}

TEST(NestedTranspose, RegularDimsWithoutElementsStay) {
  const Ragged ragged(std::make_shared<const RaggedShape>(std::vector<int64_t>{2, 3, 0, 4, 1, 1}, 2));
  const NestedTensor x(zeros({7, 2, 0}), ragged), moved = permute(x, {0, 1, 3, 2, 4});
  for (int64_t b = 0; b < 3; ++b) EXPECT_EQ(to_string(moved[b].sizes()), to_string(permute(x[b], {0, 2, 1, 3}).sizes()));
  const NestedTensor other(zeros({7, 0, 2}), ragged);
  for (int64_t b = 0; b < 3; ++b)
    EXPECT_EQ(to_string(permute(other, {0, 2, 1, 3, 4})[b].sizes()), to_string(permute(other[b], {1, 0, 2, 3}).sizes()));
}

TEST(NestedDiagonal, OfAnyOffset) {
  const NestedTensor x = NestedTensor::from_lengths(ones({5, 3}), {2, 3});
  for (const int64_t offset : {INT64_MIN, INT64_MIN + 1, INT64_MAX}) EXPECT_EQ(diagonal(x, offset, 1, 2).values().numel(), 0);
  EXPECT_EQ(diagonal(x, -1, 1, 2).values().numel(), 1 + 2);
}

TEST(NestedReshape, RegularDimsChangeTheOthersStay) {
  const NestedTensor x = random_nested({3, 0, 2}, {4, 3});
  expect_components(reshape(x, {-1, -1, 2, -1}), 3, [&](int64_t b) { return x[b].reshape({x[b].size(0), 2, 6}); });
  expect_components(view(x, {3, -1, 12}), 3, [&](int64_t b) { return x[b].reshape({x[b].size(0), 12}); });
  expect_components(flatten(x, 2), 3, [&](int64_t b) { return x[b].reshape({x[b].size(0), 12}); });
  expect_components(flatten(x, 1, 2), 3, [&](int64_t b) { return x[b].flatten(0, 1); });
  expect_components(expand(unsqueeze(x, 2), {-1, -1, 5, -1, -1}), 3, [&](int64_t b) {
    return x[b].unsqueeze(1).expand({-1, 5, -1, -1});
  });
  const NestedTensor images = random_matrices(kImages, {2});
  expect_components(flatten(images, 1, 2), 4, [&](int64_t b) { return images[b].flatten(0, 1); });
  expect_components(flatten(images, 2, 3), 4, [&](int64_t b) { return images[b].flatten(1, 2); });
  expect_equal(flatten(images, 0, 2).dense(), images.values());
  expect_gradients([](const NestedTensor& a) { return square(flatten(a, 1, 2)); }, random_nested({2, 0, 1}, {2}));
  expect_error([&] { reshape(x, {-1, 3, 12}); }, "size 3 for the ragged dim 1");
  expect_error([&] { reshape(x, {-1, -1, 5, -1}); }, "do not fit the 12 elements per row");
}

TEST(NestedTriangles, KeepTheDtype) {
  const NestedTensor square = random_matrices({{2, 3}, {0, 1}, {3, 3}}), rows = random_nested({3, 0, 2}, {4});
  for (const NestedTensor& x : {square, rows}) {
    for (const DType dtype : {DType::bool_, DType::int32, DType::float16, DType::float64}) {
      const NestedTensor typed(x.values().to(dtype), x.ragged());
      EXPECT_EQ(tril(typed).dtype(), dtype);
      EXPECT_EQ(triu(typed, 1).dtype(), dtype);
      expect_components(tril(typed, -1), typed.components(), [&](int64_t b) { return tril(typed[b], -1); });
      expect_components(triu(typed), typed.components(), [&](int64_t b) { return triu(typed[b]); });
    }
  }
}

TEST(NestedDiagonal, LiesFarOutside) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  const NestedTensor x = random_matrices({{2, 3}, {0, 1}, {3, 3}});
  for (const int64_t offset : {kLeast, kLeast + 1, kMost})
    expect_equal(diagonal(x, offset, 1, 2).lengths(), zeros({3}, DType::int64));
}

}  // namespace
}  // namespace deckle
