#include "deckle/autograd/view_layout.h"

#include "deckle/autograd/public_ops.h"
#include "deckle/base/check.h"

namespace deckle::autograd {

ViewLayout::ViewLayout(const Tensor& base, const Tensor& view)
    : base_{Dims(base.sizes()), Dims(base.strides())},
      view_{Dims(view.sizes()), Dims(view.strides())},
      offset_(view.offset() - base.offset()),
      contiguous_(base.is_contiguous()) {}

Tensor ViewLayout::memory_of(const Tensor& values) const {
  if (contiguous_) return contiguous(values);
  check(distinct_places(base_.sizes, base_.strides),
        "a view of a tensor of shape {} and strides {}, of whose elements several share a place (expected a view of its clone)",
        base_.sizes, base_.strides);
  int64_t last = 0;
  for (size_t dim = 0; dim < base_.sizes.size(); ++dim) last += (base_.sizes[dim] - 1) * base_.strides[dim];
  return as_strided_backward(values, {last + 1}, base_.strides, 0);
}

Tensor ViewLayout::part(const Tensor& memory) const { return as_strided(memory, view_.sizes, view_.strides, offset_); }

Tensor ViewLayout::whole(const Tensor& memory) const {
  return contiguous_ ? memory : as_strided(memory, base_.sizes, base_.strides, 0);
}

}  // namespace deckle::autograd
