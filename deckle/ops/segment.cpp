// What the entries of ops/segment.yaml need besides kernels: shape rules and lengths.

#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/shapes.h"

namespace deckle {

Dims shapes::segment_values_shape(const Tensor& values, const Ragged& ragged) {
  check(ragged.defined(), "the ragged shape is undefined");
  check(values.dim() >= 1 && values.size(0) == ragged->rows(), "values of shape {} for {}, which have {} rows", values.sizes(),
        to_string(ragged), ragged->rows());
  return Dims(values.sizes());
}

Dims shapes::segment_shape(const Tensor& values, const Ragged& ragged) {
  Dims sizes = segment_values_shape(values, ragged);
  sizes[0] = ragged->components();
  return sizes;
}

Dims shapes::packed_shape(const Tensor& rows, const Ragged& ragged) {
  check(ragged.defined(), "the ragged shape is undefined");
  check(rows.dim() >= 1 && rows.size(0) == ragged->components(), "rows of shape {} for {}", rows.sizes(), to_string(ragged));
  Dims sizes(rows.sizes());
  sizes[0] = ragged->rows();
  return sizes;
}

Tensor native::segment_lengths(const Tensor& values, const Ragged& ragged) {
  Dims sizes(values.sizes().size(), 1);
  sizes[0] = ragged->components();
  const Tensor result = empty(sizes, values.dtype(), values.device());
  visit_floating(values.dtype(), [&]<typename T>(TypeTag<T>) {
    for (int64_t b = 0; b < ragged->components(); ++b) {
      const auto length = static_cast<double>(ragged->offsets()[static_cast<size_t>(b) + 1] - ragged->offsets()[static_cast<size_t>(b)]);
      if constexpr (std::is_same_v<T, double>) result.data<T>()[b] = length;
      else result.data<T>()[b] = static_cast<T>(static_cast<float>(length));
    }
  });
  return result;
}

}  // namespace deckle
