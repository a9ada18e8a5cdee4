// Running products and extrema: dense ones are those of one component.

#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/from_data.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/scan.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/shapes.h"

namespace deckle {
namespace {

/// One component of all rows.
Ragged whole(const Tensor& rows) { return Ragged::from_lengths(std::vector<int64_t>{rows.size(0)}); }

std::tuple<Tensor, Tensor> along(const Tensor& self, int64_t dim,
                                 std::tuple<Tensor, Tensor> (*scan)(const Tensor& values, const Ragged& ragged)) {
  check(self.dim() > 0, Argument{"self"}, "has no dims (expected one to run along)");
  const Tensor rows = transpose(self, 0, dim);
  const auto [values, indices] = scan(rows, whole(rows));
  return {transpose(values, 0, dim), transpose(indices, 0, dim)};
}

}  // namespace

Tensor composite::segment_cumprod(const Tensor& values, const Ragged& ragged) {
  shapes::segment_values_shape(values, ragged);
  Tensor product = to(values, shapes::sum_dtype(values.dtype()));
  // After step s each row is the product of the 2 s rows up to it, or of all that there are.
  for (int64_t step = 1; step < ragged->max_size(); step *= 2) {
    const auto order = ragged->order();
    std::vector<int64_t> before(static_cast<size_t>(ragged->rows()), -1);
    for (int64_t b = 0; b < ragged->components(); ++b) {
      for (int64_t i = ragged->offset(b) + step; i < ragged->offset(b + 1); ++i) {
        const auto row = [&](int64_t place) { return order.empty() ? place : order[static_cast<size_t>(place)]; };
        before[static_cast<size_t>(row(i))] = row(i - step);
      }
    }
    product = mul(product, index_select_or(product, tensor(before), 1.0));
  }
  return product;
}

Tensor composite::cumprod(const Tensor& self, int64_t dim) {
  check(self.dim() > 0, Argument{"self"}, "has no dims (expected one to run along)");
  const Tensor rows = transpose(self, 0, dim);
  return transpose(deckle::segment_cumprod(rows, whole(rows)), 0, dim);
}

std::tuple<Tensor, Tensor> composite::cummax(const Tensor& self, int64_t dim) { return along(self, dim, deckle::segment_cummax); }

std::tuple<Tensor, Tensor> composite::cummin(const Tensor& self, int64_t dim) { return along(self, dim, deckle::segment_cummin); }

}  // namespace deckle
