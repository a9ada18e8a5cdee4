#include "deckle/nested/broadcast.h"

#include <vector>

#include "deckle/base/check.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/segment.h"
#include "deckle/ops/generated/shape.h"

namespace deckle::nested {
namespace {

/// The rows of `lead` for each row of `other`, whose ragged dims are the first ones of lead's.
Ragged repeats(const NestedTensor& other, const NestedTensor& lead) {
  std::vector<int64_t> lengths;
  for (int64_t b = 0; b < lead.components(); ++b) {
    int64_t rows = 1, repeated = 1;
    for (int dim = 0; dim < lead.ragged_dims(); ++dim) {
      const int64_t size = lead.ragged()->size(b, dim);
      if (dim >= other.ragged_dims()) {
        repeated *= size;
        continue;
      }
      check(other.ragged()->size(b, dim) == size, "component {} has size {} in dim {} beside {} in shape {}", b, other.ragged()->size(b, dim), dim + 1,
            size, nested::ShapeOf{lead});
      rows *= size;
    }
    lengths.insert(lengths.end(), static_cast<size_t>(rows), repeated);
  }
  return Ragged::from_lengths(lengths);
}

/// Regular dims of size 1 that stand for ragged dims of `lead` taken away.
Tensor without_kept_dims(const NestedTensor& other, const NestedTensor& lead) {
  Tensor values = other.values();
  const int64_t extra = values.dim() - lead.values().dim();
  if (extra <= 0) return values;
  bool fits = extra == lead.ragged_dims() - other.ragged_dims();
  for (int64_t dim = 1; fits && dim <= extra; ++dim) fits = values.size(dim) == 1;
  check(fits, "shape {} does not broadcast with {} (expected size 1 in the ragged dims that it lacks)", nested::ShapeOf{other}, nested::ShapeOf{lead});
  for (int64_t dim = 0; dim < extra; ++dim) values = squeeze(values, 1);
  return values;
}

}  // namespace

const NestedTensor& leading(std::initializer_list<const NestedTensor*> operands) {
  const NestedTensor* lead = *operands.begin();
  for (const NestedTensor* operand : operands) {
    const bool more_ragged = operand->ragged_dims() > lead->ragged_dims();
    if (more_ragged || (operand->ragged_dims() == lead->ragged_dims() && operand->dim() > lead->dim())) lead = operand;
  }
  return *lead;
}

Tensor beside(const NestedTensor& other, const NestedTensor& lead) {
  Tensor values = other.values();
  if (values.dim() == 0) return values;  // one number
  if (other.ragged_dims() >= lead.ragged_dims()) {
    require_same_ragged(lead, other);
    if (values.dim() >= lead.values().dim()) return values;
  } else {
    check(other.components() == lead.components(), "{} components beside {} of shape {}", other.components(), lead.components(), nested::ShapeOf{lead});
    values = segment_broadcast(without_kept_dims(other, lead), repeats(other, lead));
  }
  for (int64_t missing = lead.values().dim() - values.dim(); missing > 0; --missing) values = unsqueeze(values, 1);
  return values;
}

}  // namespace deckle::nested
