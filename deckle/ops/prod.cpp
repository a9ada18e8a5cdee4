// Products of all other elements: what derivatives of products are made of. A division would be wrong at zeros, and so would
// every higher derivative; trees of products are made of differentiable ops and right everywhere. On a CPU the first derivative
// is a kernel, which divides where it may (kernels/cpu/reduce/others.cpp), and higher ones are trees.

#include <vector>

#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/shapes.h"

namespace deckle {
namespace {

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
};

/// The first half of the elements, as many after them, and the one that remains of an odd number.
struct Halves {
  Tensor left, right, rest;

  explicit Halves(const Tensor& x) {
    const int64_t n = x.size(-1), half = n / 2;
    left = slice(x, -1, 0, half);
    right = slice(x, -1, half, 2 * half);
    if (n % 2 != 0) rest = slice(x, -1, 2 * half, n);
  }
  /// One more level of the tree of products.
  Tensor product() const { return rest.defined() ? deckle::cat({mul(left, right), rest}, -1) : mul(left, right); }
};

/// In the order of the dims of `self`, from rows in that of `rows`.
Tensor put_back(const Rows& rows, const Tensor& self, const Tensor& values) {
  Dims moved;
  for (const int64_t d : rows.order) moved.push_back(self.size(d));
  return permute(reshape(values, moved), shapes::inverse_permutation(rows.order));
}

/// What lies outside of each of the two of a pair: what lies outside the pair, times the partner.
Tensor outside_each(const Tensor& of_left, const Tensor& of_right, const Tensor& others, const Halves& level) {
  std::vector<Tensor> parts = {of_left, of_right};
  const int64_t half = level.left.size(-1);
  if (level.rest.defined()) parts.push_back(slice(others, -1, half, half + 1));
  return deckle::cat(parts, -1);
}

}  // namespace

Tensor composite::tree_of_others(const Tensor& self, std::optional<IntSpan> dim) {
  const Rows rows(self, dim);
  if (rows.n == 0) return self;
  std::vector<Halves> levels;
  Tensor x = rows.values;
  while (x.size(-1) > 1) {
    levels.emplace_back(x);
    x = levels.back().product();
  }
  Tensor others = ones_like(x);
  for (; !levels.empty(); levels.pop_back()) {
    const Halves& level = levels.back();
    const Tensor outside = slice(others, -1, 0, level.left.size(-1));
    others = outside_each(mul(outside, level.right), mul(outside, level.left), others, level);
  }
  return put_back(rows, self, others);
}

/// The same tree of numbers with their slopes along `direction`.
Tensor composite::others_slope(const Tensor& direction, const Tensor& self, std::optional<IntSpan> dim) {
  const Rows rows(self, dim), directions(direction, dim);
  if (rows.n == 0) return direction;
  std::vector<Halves> levels, slopes;
  Tensor x = rows.values, t = directions.values;
  while (x.size(-1) > 1) {
    levels.emplace_back(x);
    slopes.emplace_back(t);
    const Halves &value = levels.back(), &slope = slopes.back();
    const Tensor both = add(mul(slope.left, value.right), mul(value.left, slope.right));
    x = value.product();
    t = slope.rest.defined() ? deckle::cat({both, slope.rest}, -1) : both;
  }
  Tensor others = ones_like(x), changes = zeros_like(x);
  for (; !levels.empty(); levels.pop_back(), slopes.pop_back()) {
    const Halves &value = levels.back(), &slope = slopes.back();
    const int64_t half = value.left.size(-1);
    const Tensor outside = slice(others, -1, 0, half), change = slice(changes, -1, 0, half);
    const auto along = [&](const Tensor& partner, const Tensor& partners_slope) {
      return add(mul(change, partner), mul(outside, partners_slope));
    };
    changes = outside_each(along(value.right, slope.right), along(value.left, slope.left), changes, value);
    others = outside_each(mul(outside, value.right), mul(outside, value.left), others, value);
  }
  return put_back(rows, self, changes);
}

}  // namespace deckle
