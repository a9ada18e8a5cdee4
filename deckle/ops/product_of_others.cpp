// For each element the product of all others: what derivatives of products are made of. A division would be wrong at zeros, and
// so would every higher derivative; a tree of products is made of differentiable ops and right everywhere. One tree is for
// elements along dims and for rows of components, which differ in who is paired with whom, and for numbers with and without
// slopes. On a CPU the first derivative along dims is a kernel, which divides where it may (kernels/cpu/reduce/others.cpp).

#include <algorithm>
#include <concepts>
#include <vector>

#include "deckle/core/from_data.h"
#include "deckle/core/kept.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/shapes.h"

namespace deckle {
namespace {

Tensor times(const Tensor& a, const Tensor& b) { return mul(a, b); }

/// A number and its slope along some direction.
struct Sloped {
  Tensor value, slope;
};

Sloped times(const Sloped& a, const Sloped& b) {
  const Tensor slope = add(mul(a.slope, b.value), mul(a.value, b.slope));
  return {mul(a.value, b.value), slope};
}

/// What moves elements, of numbers with slopes: of both alike.
template <typename Move, typename... Operands>
Tensor each(const Move& move, const Operands&... operands) requires(std::same_as<Operands, Tensor>&&...) {
  return move(operands...);
}
template <typename Move, typename... Operands>
Sloped each(const Move& move, const Operands&... operands) requires(std::same_as<Operands, Sloped>&&...) {
  return {move(operands.value...), move(operands.slope...)};
}

/// Products of all others, of `x`, up a tree of pairs and down again. A level has
///   left(x), right(x)         the two of each pair
///   with_rest(products, x)    the next level's elements: products of pairs, and what of x is in none
///   of_pairs(others)          those of pairs out of the next level's
///   back(l, r, others)        the level's elements, of those that were left and right, and of the next level's
/// What lies outside a pair, times the partner, is what lies outside each of the two. `one` gives the tree's top its 1.
template <typename Level, typename Number, typename One>
Number product_of_others(Number x, const std::vector<Level>& levels, const One& one) {
  struct Factors {
    Number left, right;
  };
  std::vector<Factors> factors;
  for (const Level& level : levels) {
    Number left = each([&](const Tensor& t) { return level.left(t); }, x);
    Number right = each([&](const Tensor& t) { return level.right(t); }, x);
    const auto with_rest = [&](const Tensor& products, const Tensor& t) { return level.with_rest(products, t); };
    x = each(with_rest, times(left, right), x);
    factors.push_back({std::move(left), std::move(right)});
  }
  Number others = one(x);
  for (size_t i = levels.size(); i-- > 0; factors.pop_back()) {
    const Number outside = each([&](const Tensor& t) { return levels[i].of_pairs(t); }, others);
    const Number of_right = times(outside, factors.back().left), of_left = times(outside, factors.back().right);
    const auto back = [&](const Tensor& l, const Tensor& r, const Tensor& next) { return levels[i].back(l, r, next); };
    others = each(back, of_left, of_right, others);
  }
  return others;
}

/// The dims that stay in front, those of `dim` (none: all) as one of n elements behind them.
struct Rows {
  Dims order, sizes;
  int64_t n;
  Tensor values;

  Rows(const Tensor& self, std::optional<IntSpan> dim) : n(shapes::reduced_count(self.sizes(), dim)) {
    const IntSpan dims = dim.value_or(IntSpan());
    for (const bool reduced : {false, true}) {
      for (int64_t d = 0; d < self.dim(); ++d) {
        bool is_reduced = dims.empty();
        for (size_t i = 0; !is_reduced && i < dims.size(); ++i) is_reduced = wrap_dim(dims[i], self.sizes()) == d;
        if (is_reduced != reduced) continue;
        order.push_back(d);
        if (!reduced) sizes.push_back(self.size(d));
      }
    }
    sizes.push_back(n);
    values = reshape(permute(self, order), sizes);
  }

  /// In the order of the dims of `self`, from rows in that of these.
  Tensor put_back(const Tensor& self, const Tensor& of_rows) const {
    Dims moved;
    for (const int64_t d : order) moved.push_back(self.size(d));
    return permute(reshape(of_rows, moved), shapes::inverse_permutation(order));
  }
};

/// Of n elements along the last dim the first half, as many after them, and the one that remains of an odd number.
struct Halves {
  int64_t n, half = n / 2;

  Tensor left(const Tensor& x) const { return slice(x, -1, 0, half); }
  Tensor right(const Tensor& x) const { return slice(x, -1, half, 2 * half); }
  Tensor with_rest(const Tensor& products, const Tensor& x) const {
    return n % 2 != 0 ? deckle::cat({products, slice(x, -1, 2 * half, n)}, -1) : products;
  }
  Tensor of_pairs(const Tensor& others) const { return slice(others, -1, 0, half); }
  Tensor back(const Tensor& of_left, const Tensor& of_right, const Tensor& others) const {
    std::vector<Tensor> parts = {of_left, of_right};
    if (n % 2 != 0) parts.push_back(slice(others, -1, half, half + 1));
    return deckle::cat(parts, -1);
  }
};

std::vector<Halves> halves_of(int64_t n) {
  std::vector<Halves> levels;
  for (; n > 1; n = (n + 1) / 2) levels.push_back({n});
  return levels;
}

/// The rows of each component in pairs, the first half with the second, as indices on the device of the rows. The last row of
/// every level is 1, the partner of those that have none.
struct Pairs {
  Tensor left_rows, right_rows;
  Tensor places;  // for each row of the level: its pair; right children are offset by the number of pairs

  /// Of components of these lengths, which become those of the next level.
  explicit Pairs(std::vector<int64_t>& lengths) {
    std::vector<int64_t> left, right, pair;
    int64_t rows = 0, count = 0, start = 0;
    for (const int64_t length : lengths) {
      rows += length;
      count += (length + 1) / 2;
    }
    for (int64_t& length : lengths) {
      const int64_t half = (length + 1) / 2, first = static_cast<int64_t>(left.size());
      for (int64_t i = 0; i < half; ++i) {
        left.push_back(start + i);
        right.push_back(half + i < length ? start + half + i : rows);
      }
      for (int64_t i = 0; i < length; ++i) pair.push_back(i < half ? first + i : count + 1 + first + i - half);
      start += length;
      length = half;
    }
    left.push_back(rows);
    right.push_back(rows);
    pair.push_back(count);
    left_rows = tensor(left);
    right_rows = tensor(right);
    places = tensor(pair);
  }

  Tensor left(const Tensor& x) const { return index_select(x, 0, left_rows); }
  Tensor right(const Tensor& x) const { return index_select(x, 0, right_rows); }
  Tensor with_rest(const Tensor& products, const Tensor&) const { return products; }
  Tensor of_pairs(const Tensor& others) const { return others; }
  Tensor back(const Tensor& of_left, const Tensor& of_right, const Tensor&) const {
    return index_select(deckle::cat({of_left, of_right}, 0), 0, places);
  }
};

std::vector<int64_t> lengths_of(const RaggedShape& shape) {
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < shape.components(); ++b) lengths.push_back(shape.offset(b + 1) - shape.offset(b));
  return lengths;
}

std::vector<Pairs> pairs_of(const RaggedShape& shape) {
  std::vector<Pairs> levels;
  std::vector<int64_t> lengths = lengths_of(shape);
  while (std::any_of(lengths.begin(), lengths.end(), [](int64_t length) { return length > 1; })) levels.emplace_back(lengths);
  return levels;
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

Tensor composite::tree_of_others(const Tensor& self, std::optional<IntSpan> dim) {
  const Rows rows(self, dim);
  if (rows.n == 0) return self;
  return rows.put_back(self, product_of_others(rows.values, halves_of(rows.n), [](const Tensor& x) { return ones_like(x); }));
}

Tensor composite::others_slope(const Tensor& direction, const Tensor& self, std::optional<IntSpan> dim) {
  const Rows rows(self, dim), directions(direction, dim);
  if (rows.n == 0) return direction;
  const auto one = [](const Sloped& x) { return Sloped{ones_like(x.value), zeros_like(x.value)}; };
  return rows.put_back(self, product_of_others(Sloped{rows.values, directions.values}, halves_of(rows.n), one).slope);
}

Tensor composite::segment_others(const Tensor& values, const Ragged& ragged) {
  Dims one_row = shapes::segment_values_shape(values.sizes(), ragged);
  one_row[0] = 1;
  if (!ragged->order().empty()) {  // gathers contiguous rows, and scatters back
    const Sorted sorted = kept_value(*ragged, "sorted", {}, [&] { return sorted_rows(*ragged); });
    return index_select(deckle::segment_others(index_select(values, 0, sorted.rows), sorted.ragged), 0, sorted.places);
  }
  const std::vector<Pairs> levels = kept_value(*ragged, "pairs", {}, [&] { return pairs_of(*ragged); });
  const Tensor products = deckle::cat({values, ones(one_row, values.dtype())}, 0);
  const Tensor others = product_of_others(products, levels, [](const Tensor& x) { return ones_like(x); });
  return narrow(others, 0, 0, values.size(0));
}

}  // namespace deckle
