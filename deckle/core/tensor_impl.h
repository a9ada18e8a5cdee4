#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "deckle/core/from_data.h"
#include "deckle/core/tensor.h"

namespace deckle {

namespace autograd {
struct Meta;      // history, gradient, view relation: deckle/autograd/meta.h
struct Tangents;  // forward-mode tangents by level
}  // namespace autograd

/// What a Tensor handle points to. Geometry never changes after construction; two impls may share everything but the
/// part of the gradient data that they see.
struct TensorImpl {
  std::shared_ptr<Storage> storage;
  Dims sizes;
  Dims strides;
  int64_t offset = 0;
  int64_t numel = 0;
  DType dtype = DType::float32;

  std::shared_ptr<autograd::Meta> meta;
  std::shared_ptr<autograd::Tangents> tangents;
  int64_t tangent_limit = std::numeric_limits<int64_t>::max();  // tangents of this level and above are not seen
};

/// First element, on whatever device it lives: for kernels and copies, not to be read by the host. nullptr when there is none.
void* address(const Tensor& tensor);

/// A tensor on existing storage; checks that its elements lie inside.
Tensor make_tensor(std::shared_ptr<Storage> storage, IntSpan sizes, IntSpan strides, int64_t offset, DType dtype);

/// As empty, whose name an Error does not get.
Tensor empty_raw(IntSpan sizes, DType dtype, Device device);

/// Below autograd: all bits zero.
Tensor zeros_raw(IntSpan sizes, DType dtype, Device device);

/// The same elements under other sizes, strides and offset; no history is recorded.
Tensor alias(const Tensor& tensor, IntSpan sizes, IntSpan strides, int64_t offset);

}  // namespace deckle
