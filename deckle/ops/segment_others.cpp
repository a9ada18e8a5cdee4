// The product of the other rows of a component, for every row: what a product's derivative is made of. A division would be wrong
// at zeros, and so would every higher derivative; a tree of products is made of differentiable ops and right everywhere.

#include <algorithm>
#include <vector>

#include "deckle/core/from_data.h"
#include "deckle/core/kept.h"
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

/// The indices of one level, on the device of the rows.
struct Level {
  Tensor left, right, back;
};

std::vector<Level> levels_of(std::vector<int64_t> lengths) {
  std::vector<Level> levels;
  while (std::any_of(lengths.begin(), lengths.end(), [](int64_t length) { return length > 1; })) {
    Pairs pairs = pair_up(lengths);
    levels.push_back({tensor(pairs.left), tensor(pairs.right), tensor(pairs.back)});
    lengths = std::move(pairs.lengths);
  }
  return levels;
}

std::vector<int64_t> lengths_of(const RaggedShape& shape) {
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < shape.components(); ++b) lengths.push_back(shape.offset(b + 1) - shape.offset(b));
  return lengths;
}

/// Contiguous rows out of those that have an order, and back.
struct Sorted {
  Tensor rows, places;
  Ragged ragged;
};

Sorted sorted_rows(const RaggedShape& shape) {
  std::vector<int64_t> rows(shape.order().begin(), shape.order().end()), places(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) places[static_cast<size_t>(rows[i])] = static_cast<int64_t>(i);
  return {tensor(rows), tensor(places), Ragged::from_lengths(lengths_of(shape))};
}

}  // namespace

Tensor composite::segment_others(const Tensor& values, const Ragged& ragged) {
  Dims one_row = shapes::segment_values_shape(values.sizes(), ragged);
  one_row[0] = 1;
  if (!ragged->order().empty()) {  // gathers contiguous rows, and scatters back
    const Sorted sorted = kept_value(ragged, "sorted", {}, [&] { return sorted_rows(*ragged); });
    return index_select(deckle::segment_others(index_select(values, 0, sorted.rows), sorted.ragged), 0, sorted.places);
  }
  const std::vector<Level> levels = kept_value(ragged, "pairs", {}, [&] { return levels_of(lengths_of(*ragged)); });
  struct Factors {
    Tensor left, right;
  };
  std::vector<Factors> factors;
  Tensor products = deckle::cat({values, ones(one_row, values.dtype())}, 0);
  for (const Level& level : levels) {
    factors.push_back({index_select(products, 0, level.left), index_select(products, 0, level.right)});
    products = mul(factors.back().left, factors.back().right);
  }
  // Down again: what lies outside a pair, times the partner, is what lies outside each of the two.
  Tensor others = ones_like(products);
  for (size_t i = levels.size(); i-- > 0; factors.pop_back()) {
    const auto& [left, right] = factors.back();
    others = index_select(deckle::cat({mul(others, right), mul(others, left)}, 0), 0, levels[i].back);
  }
  return narrow(others, 0, 0, values.size(0));
}

}  // namespace deckle
