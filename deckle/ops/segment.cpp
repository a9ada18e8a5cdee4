// What the entries of ops/segment.yaml need besides kernels: shape rules, lengths, and rows that repeat.

#include "deckle/ops/generated/segment.h"
#include "deckle/base/check.h"
#include "deckle/core/shown.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/shapes.h"

namespace deckle {

Dims shapes::segment_values_shape(IntSpan sizes, const Ragged& ragged) {
  check(ragged.defined(), Argument{"ragged"}, "is undefined (expected a ragged shape)");
  check(!sizes.empty() && sizes[0] == ragged->rows(), "values of shape {} for {} (expected {} rows)", sizes, Shown{ragged},
        ragged->rows());
  return Dims(sizes);
}

Dims shapes::segment_shape(IntSpan sizes, const Ragged& ragged) {
  Dims reduced = segment_values_shape(sizes, ragged);
  reduced[0] = ragged->components();
  return reduced;
}

Dims shapes::segment_index_shape(const Tensor& values, const Ragged& ragged, const Tensor& index, const Ragged& index_ragged) {
  const Dims sizes = segment_values_shape(values.sizes(), ragged),
             index_sizes = segment_values_shape(index.sizes(), index_ragged);
  check(ragged->components() == index_ragged->components(), "the index has {} components, the values have {} (expected as many)",
        index_ragged->components(), ragged->components());
  check(ragged->order().empty() && index_ragged->order().empty(),
        "the rows of a component are scattered (expected one after another)");
  bool fits = sizes.size() == index_sizes.size();
  for (size_t dim = 1; fits && dim < sizes.size(); ++dim) fits = index_sizes[dim] <= sizes[dim];
  check(fits, Argument{"index"}, "has shape {} for values {} (expected as many dims, no larger ones after dim 0)", index_sizes,
        sizes);
  return index_sizes;
}

Dims shapes::packed_shape(const Tensor& rows, const Ragged& ragged) {
  check(ragged.defined(), Argument{"ragged"}, "is undefined (expected a ragged shape)");
  check(rows.dim() >= 1 && rows.size(0) == ragged->components(), "rows of shape {} for {} (expected one each)", rows.sizes(),
        Shown{ragged});
  Dims sizes(rows.sizes());
  sizes[0] = ragged->rows();
  return sizes;
}

Dims shapes::moved_shape(const Tensor& values, const Ragged& from, const Ragged& to) {
  Dims sizes = segment_values_shape(values.sizes(), from);
  check(to.defined() && to->components() == from->components(), "{} for {} sequences (expected one for each)", Shown{to},
        from->components());
  check(from->ragged_dims() == 1 && to->ragged_dims() == 1 && from->order().empty() && to->order().empty(),
        "sequences are {} and {} (expected one ragged dim, without an order)", Shown{from}, Shown{to});
  sizes[0] = to->rows();
  return sizes;
}

namespace {

void require_matrices(const char* which, const Ragged& shape) {
  check(shape.defined() && shape->ragged_dims() == 2, "{} has {} (expected two ragged dims: rows and columns of each matrix)",
        which, Shown{shape});
}

}  // namespace

Dims shapes::transposed_shape(const Tensor& self, const Ragged& shape, const Ragged& transposed) {
  require_matrices("shape", shape);
  require_matrices("transposed", transposed);
  bool fits = shape->components() == transposed->components();
  for (int64_t b = 0; fits && b < shape->components(); ++b)
    fits = shape->size(b, 0) == transposed->size(b, 1) && shape->size(b, 1) == transposed->size(b, 0);
  check(fits, "the transposes of {} are not {} (expected the same matrices)", Shown{shape}, Shown{transposed});
  check(shape->rows() == 0 ? self.numel() == 0 : self.numel() % shape->rows() == 0,
        "{} elements for {} (expected as many for each element of a matrix)", self.numel(), Shown{shape});
  return {self.numel()};
}

Dims shapes::grouped_shape(const Tensor& self, const Ragged& self_shape, const Tensor& other, const Ragged& other_shape,
                           const Ragged& product_shape, bool transpose_self, bool transpose_other) {
  require_matrices("self_shape", self_shape);
  require_matrices("other_shape", other_shape);
  require_matrices("product_shape", product_shape);
  check(self.numel() == self_shape->rows() && other.numel() == other_shape->rows(),
        "operands of shapes {} and {} for {} and {} (expected as many elements)", self.sizes(), other.sizes(), Shown{self_shape},
        Shown{other_shape});
  const int64_t count = product_shape->components();
  check(self_shape->components() == count && other_shape->components() == count,
        "self has {}, other has {}, their product {} (expected as many components)", Shown{self_shape}, Shown{other_shape},
        Shown{product_shape});
  for (int64_t b = 0; b < count; ++b) {
    const int64_t rows = self_shape->size(b, transpose_self), inner = self_shape->size(b, !transpose_self);
    const int64_t other_inner = other_shape->size(b, transpose_other), cols = other_shape->size(b, !transpose_other);
    check(inner == other_inner, "component {} multiplies [{}, {}] by [{}, {}]: the inner dims differ (expected the same)", b,
          rows, inner, other_inner, cols);
    check(product_shape->size(b, 0) == rows && product_shape->size(b, 1) == cols,
          "component {} of the product is [{}, {}] (expected [{}, {}])", b, product_shape->size(b, 0), product_shape->size(b, 1),
          rows, cols);
  }
  return {product_shape->rows()};
}

Tensor native::segment_lengths(const Tensor& values, const Ragged& ragged) {
  Dims sizes(values.sizes().size(), 1);
  sizes[0] = ragged->components();
  const Tensor result = empty(sizes, shapes::statistics_dtype(values.dtype()));
  visit_floating(result.dtype(), [&]<typename T>(TypeTag<T>) {
    for (int64_t b = 0; b < ragged->components(); ++b) {
      const auto length =
          static_cast<double>(ragged->offsets()[static_cast<size_t>(b) + 1] - ragged->offsets()[static_cast<size_t>(b)]);
      if constexpr (std::is_same_v<T, double>)
        result.data<T>()[b] = length;
      else
        result.data<T>()[b] = T(static_cast<float>(length));
    }
  });
  return native::move_to(result, values.device());
}

}  // namespace deckle
