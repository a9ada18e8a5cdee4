#pragma once

#include <cstdint>

#include "deckle/nested/nested_tensor.h"

/// Ragged data as other libraries lay it out: plain tensors in, plain tensors out. Values are shared where the layout allows it
/// and gathered otherwise; both are differentiable.
namespace deckle {

/// PyTorch's torch.jagged: component b is values[offsets[b] .. offsets[b] + lengths[b]); without lengths, up to offsets[b + 1].
struct JaggedLayout {
  Tensor values;   // [rows, regular dims]
  Tensor offsets;  // [B + 1], int64 or int32
  Tensor lengths;  // [B], or undefined: no gaps
};

/// One ragged dim, no gaps; offsets of the given dtype.
JaggedLayout to_jagged(const NestedTensor& x, DType offsets = DType::int64);
/// Any offsets and lengths inside the values: components may leave gaps, overlap and come in any order.
NestedTensor from_jagged(const JaggedLayout& layout);

/// PyTorch's torch.strided: element (i, j, ..) of component b is buffer[offsets[b] + i * strides[b, 0] + j * strides[b, 1] + ..].
struct StridedLayout {
  Tensor buffer;   // [elements]
  Tensor sizes;    // [B, dims], int64 like the others
  Tensor strides;  // [B, dims]
  Tensor offsets;  // [B]
};

StridedLayout to_strided(const NestedTensor& x);
/// Leading dims up to the last one whose size varies are ragged, and at least the first `ragged_dims`.
NestedTensor from_strided(const StridedLayout& layout, int ragged_dims = 1);

/// What variable-length attention kernels take: packed values, int32 offsets from 0 on, and the longest length.
struct VarlenLayout {
  Tensor values;
  Tensor cu_seqlens;  // [B + 1], int32
  int64_t max_seqlen = 0;
};

VarlenLayout to_varlen(const NestedTensor& x);
NestedTensor from_varlen(const Tensor& values, const Tensor& cu_seqlens);

/// Arrow's List (int32) and LargeList (int64): offsets need not start at 0, for slices share their values.
struct ArrowList {
  Tensor offsets;  // [B + 1]
  Tensor values;
};

ArrowList to_arrow(const NestedTensor& x, DType offsets = DType::int32);
NestedTensor from_arrow(const ArrowList& list);

}  // namespace deckle
