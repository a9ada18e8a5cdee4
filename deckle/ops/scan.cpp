// Running products.

#include <algorithm>
#include <vector>

#include "deckle/core/from_data.h"
#include "deckle/core/kept.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/scan.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/shapes.h"

namespace deckle {
namespace {

/// For each row the one `step` rows before it in its component; -1 where there is none.
Tensor rows_before(const RaggedShape& shape, int64_t step) {
  const auto order = shape.order();
  std::vector<int64_t> before(static_cast<size_t>(shape.rows()), -1);
  for (int64_t b = 0; b < shape.components(); ++b) {
    for (int64_t i = shape.offset(b) + step; i < shape.offset(b + 1); ++i) {
      const auto row = [&](int64_t place) { return order.empty() ? place : order[static_cast<size_t>(place)]; };
      before[static_cast<size_t>(row(i))] = row(i - step);
    }
  }
  return tensor(before);
}

/// What the steps multiply in: elements behind others meet before these, so their products leave a narrower dtype on the way.
DType wide_dtype(DType dtype) {
  return dtype == DType::float32 ? DType::float64 : is_floating(dtype) && dtype != DType::float64 ? DType::float32 : dtype;
}

}  // namespace

Tensor composite::segment_cumprod(const Tensor& values, const Ragged& ragged) {
  shapes::segment_values_shape(values.sizes(), ragged);
  const DType dtype = shapes::sum_dtype(values.dtype());
  Tensor product = to(values, wide_dtype(dtype));
  int64_t longest = 0;  // rows of a component: of several ragged dims their product
  for (int64_t b = 0; b < ragged->components(); ++b) longest = std::max(longest, ragged->offset(b + 1) - ragged->offset(b));
  Dims column(static_cast<size_t>(product.dim()), 1);
  column[0] = ragged->rows();
  // After step s each row is the product of the 2 s rows up to it, or of all that there are.
  for (int64_t step = 1; step < longest; step *= 2) {
    const Tensor partner = kept_value(*ragged, "partners", {step}, [&] { return rows_before(*ragged, step); });
    // Others stay: times the 1 beside them the tangent of an infinite product would be NaN.
    product = where(view(ge(partner, 0), column), mul(product, index_select_or(product, partner, 1.0)), product);
  }
  return to(product, dtype);
}

}  // namespace deckle
