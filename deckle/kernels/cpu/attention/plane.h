#pragma once

#include <cstdint>

#include "deckle/base/dtype.h"
#include "deckle/kernels/cpu/attention/geometry.h"

namespace deckle::kernels::cpu {

/// A plane (bias or boolean mask) of one head of one sequence: element (i, j) at data + (i * row_stride + j * column_stride) *
/// item.
struct PlaneView {
  char* data = nullptr;
  DType dtype = DType::float32;
  bool boolean = false;
  int64_t item = 0, row_stride = 0, column_stride = 0;

  PlaneView() = default;
  /// `offsets`: of a ragged plane, else null.
  PlaneView(const AttentionPlane& plane, const int64_t* offsets, const Sequence& sequence, int64_t head, DType type)
      : data(static_cast<char*>(plane.data)),
        dtype(type),
        boolean(type == DType::bool_),
        item(item_size(type)),
        row_stride(plane.row_stride),
        column_stride(plane.column_stride) {
    if (data == nullptr) return;
    if (offsets == nullptr) {
      data += (sequence.index * plane.sequence_stride + head * plane.head_stride) * item;
      return;
    }
    const int64_t columns = plane.column_stride != 0 ? sequence.keys : 1, rows = plane.row_stride != 0 ? sequence.rows : 1;
    column_stride = plane.column_stride != 0;
    row_stride = plane.row_stride != 0 ? columns : 0;
    data += (offsets[sequence.index] + (plane.head_stride != 0 ? head * rows * columns : 0)) * item;
  }
  /// The problem's mask.
  PlaneView(const AttentionProblem& problem, const Sequence& sequence, int64_t head)
      : PlaneView(problem.mask, nullptr, sequence, head, DType::bool_) {}

  explicit operator bool() const { return data != nullptr; }

  double get(int64_t i, int64_t j) const {
    const char* at = data + (i * row_stride + j * column_stride) * item;
    if (boolean) return *reinterpret_cast<const uint8_t*>(at) != 0;
    return visit_floating(
        dtype, [&](auto tag) { return static_cast<double>(*reinterpret_cast<const typename decltype(tag)::type*>(at)); });
  }
};

}  // namespace deckle::kernels::cpu
