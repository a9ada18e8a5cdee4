#pragma once

#include <cstdint>
#include <span>

#include "deckle/base/dtype.h"

namespace deckle {

inline constexpr int kMaxDims = 12;

/// A strided window on memory: what a kernel sees of a tensor. Strides count elements; a stride may be 0 (broadcast).
struct View {
  void* data = nullptr;  // nullptr: an optional tensor that was not given (or no elements: see numel)
  DType dtype = DType::float32;
  bool defined = false;
  int ndim = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t strides[kMaxDims] = {};
  const int64_t* table =
      nullptr;  // if given, dim 0 goes through it: index i is at table[i] * strides[0]. Pointwise inputs alone have one

  template <typename T>
  T* ptr() const {
    return static_cast<T*>(data);
  }
  int64_t numel() const {
    int64_t count = 1;
    for (int dim = 0; dim < ndim; ++dim) count *= sizes[dim];
    return count;
  }
  bool contiguous() const {
    int64_t expected = 1;
    for (int dim = ndim - 1; dim >= 0; --dim) {
      if (sizes[dim] != 1 && strides[dim] != expected) return false;
      expected *= sizes[dim];
    }
    return true;
  }
};

/// The ragged shape of packed values. Component b has sizes[b * ragged_dims + d] along ragged dim d; its rows (the product of
/// its ragged sizes) are values[offsets[b], offsets[b + 1]).
struct RaggedView {
  int64_t components = 0;
  int ragged_dims = 1;
  const int64_t* sizes = nullptr;    // [components, ragged_dims]
  const int64_t* offsets = nullptr;  // [components + 1], offsets[0] = 0
  const int64_t* order = nullptr;    // [rows]: the row of the values that each of these is; nullptr: they lie one after another
  int64_t rows() const { return offsets[components]; }
  int64_t row(int64_t i) const { return order == nullptr ? i : order[i]; }
};

}  // namespace deckle
