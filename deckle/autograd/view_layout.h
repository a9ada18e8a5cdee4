#pragma once

#include "deckle/core/tensor.h"

namespace deckle::autograd {

/// Where a view lies in its base: enough to see any tensor of the base's shape through the view. Views of views take the
/// same form, so that a chain of them costs no more than one. The base's elements must lie apart (distinct_places).
class ViewLayout {
 public:
  ViewLayout(const Tensor& base, const Tensor& view);

  /// Contiguous memory in which the elements of `values`, a tensor of the base's shape, lie as those of the base do; the
  /// very tensor where it lies so already. Differentiable, like the others.
  Tensor memory_of(const Tensor& values) const;
  /// What the view sees of such memory, without a copy.
  Tensor part(const Tensor& memory) const;
  /// All of it in the base's shape.
  Tensor whole(const Tensor& memory) const;

 private:
  struct Geometry {
    Dims sizes, strides;
  };
  Geometry base_, view_;
  int64_t offset_;   // of the view's first element from the base's
  bool contiguous_;  // the base
};

}  // namespace deckle::autograd
