// The product of the other rows of a component, for every row: what a product's derivative is made of. A division would be wrong
// at zeros, and so would every higher derivative; a tree of products is made of differentiable ops and right everywhere.

#include <algorithm>
#include <vector>

#include "deckle/core/from_data.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/shapes.h"

namespace deckle {
namespace {

/// One step up the tree: the rows of each component in pairs, the first half with the second. The last row of every level is 1,
/// the partner of those that have none.
struct Pairs {
  std::vector<int64_t> left, right;  // rows of the level below
  std::vector<int64_t> back;         // for each of those: its pair; right children are offset by the number of pairs
  std::vector<int64_t> lengths;      // pairs of each component
};

Pairs pair_up(const std::vector<int64_t>& lengths) {
  Pairs pairs;
  int64_t rows = 0, count = 0;
  for (const int64_t length : lengths) {
    rows += length;
    count += (length + 1) / 2;
  }
  int64_t start = 0;
  for (const int64_t length : lengths) {
    const int64_t half = (length + 1) / 2, first = static_cast<int64_t>(pairs.left.size());
    for (int64_t i = 0; i < half; ++i) {
      pairs.left.push_back(start + i);
      pairs.right.push_back(half + i < length ? start + half + i : rows);
    }
    for (int64_t i = 0; i < length; ++i) pairs.back.push_back(i < half ? first + i : count + 1 + first + i - half);
    pairs.lengths.push_back(half);
    start += length;
  }
  pairs.left.push_back(rows);
  pairs.right.push_back(rows);
  pairs.back.push_back(count);
  return pairs;
}

}  // namespace

Tensor composite::segment_others(const Tensor& values, const Ragged& ragged) {
  Dims one_row = shapes::segment_values_shape(values.sizes(), ragged);
  one_row[0] = 1;
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < ragged->components(); ++b) {
    lengths.push_back(ragged->offsets()[static_cast<size_t>(b) + 1] - ragged->offsets()[static_cast<size_t>(b)]);
  }
  if (const auto order = ragged->order(); !order.empty()) {  // gathers contiguous rows, and scatters back
    std::vector<int64_t> rows(order.begin(), order.end()), places(order.size());
    for (size_t i = 0; i < rows.size(); ++i) places[static_cast<size_t>(rows[i])] = static_cast<int64_t>(i);
    return index_select(deckle::segment_others(index_select(values, 0, tensor(rows)), Ragged::from_lengths(lengths)), 0,
                        tensor(places));
  }
  struct Level {
    Tensor left, right, back;
  };
  std::vector<Level> levels;
  Tensor products = deckle::cat({values, ones(one_row, values.dtype())}, 0);
  while (std::any_of(lengths.begin(), lengths.end(), [](int64_t length) { return length > 1; })) {
    Pairs pairs = pair_up(lengths);
    levels.push_back(
        {index_select(products, 0, tensor(pairs.left)), index_select(products, 0, tensor(pairs.right)), tensor(pairs.back)});
    products = mul(levels.back().left, levels.back().right);
    lengths = std::move(pairs.lengths);
  }
  // Down again: what lies outside a pair, times the partner, is what lies outside each of the two.
  Tensor others = ones_like(products);
  for (; !levels.empty(); levels.pop_back()) {
    const Level& level = levels.back();
    others = index_select(deckle::cat({mul(others, level.right), mul(others, level.left)}, 0), 0, level.back);
  }
  return narrow(others, 0, 0, values.size(0));
}

}  // namespace deckle
