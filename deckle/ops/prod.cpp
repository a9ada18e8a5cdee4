// Products of all other elements: what derivatives of products are made of. A division would be wrong at zeros, and so would
// every higher derivative; trees of products are made of differentiable ops and right everywhere.

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

}  // namespace

Tensor composite::prod_others(const Tensor& self, std::optional<IntSpan> dim) {
  const Rows rows(self, dim);
  if (rows.n == 0) return self;
  std::vector<Halves> levels;
  Tensor x = rows.values;
  while (x.size(-1) > 1) {
    levels.emplace_back(x);
    x = levels.back().product();
  }
  // Down again: what lies outside a pair, times the partner, is what lies outside each of the two.
  Tensor others = ones_like(x);
  for (; !levels.empty(); levels.pop_back()) {
    const Halves& level = levels.back();
    const int64_t half = level.left.size(-1);
    const Tensor outside = slice(others, -1, 0, half);
    std::vector<Tensor> parts = {mul(outside, level.right), mul(outside, level.left)};
    if (level.rest.defined()) parts.push_back(slice(others, -1, half, half + 1));
    others = deckle::cat(parts, -1);
  }
  Dims moved;
  for (const int64_t d : rows.order) moved.push_back(self.size(d));
  return permute(reshape(others, moved), shapes::inverse_permutation(rows.order));
}

}  // namespace deckle
