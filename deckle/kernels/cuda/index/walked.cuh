#pragma once

// Where the elements of an index along one dim lead.
#include <cstdint>
#include <string>

#include "deckle/base/error.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cuda/index/fault.cuh"

namespace deckle::kernels::cuda::index {

/// Places of element n of the index, in row-major order: what it chooses, and the element that is added there.
struct Walked {
  int ndim, dim;
  int64_t sizes[kMaxDims];
  int64_t chosen[kMaxDims];  // strides of the operand that is chosen from, or added to
  int64_t source[kMaxDims];  // strides of the elements added
  int64_t rows;

  /// Of an index with elements. What it would choose from is asked here: where there is nothing, no place exists to go on with.
  Walked(const View& index, int64_t along, const View& operand, const View& other)
      : ndim(index.ndim), dim(static_cast<int>(along)), rows(operand.ndim == 0 ? 1 : operand.sizes[along]) {
    for (int d = 0; d < ndim; ++d) {
      sizes[d] = index.sizes[d];
      chosen[d] = operand.strides[d];
      source[d] = other.strides[d];
    }
    if (rows == 0)
      throw Error("index has elements, and dim " + std::to_string(along) +
                  " of what it chooses from has none (expected an index without elements)");
  }
  __device__ int64_t places(int64_t n, int64_t row, int64_t& from) const {
    int64_t at = 0;
    from = 0;
    for (int d = ndim - 1; d >= 0; --d) {
      const int64_t quotient = n / sizes[d], position = n - quotient * sizes[d];
      at += (d == dim ? row : position) * chosen[d];
      from += position * source[d];
      n = quotient;
    }
    return at;
  }
  __device__ int64_t checked(int64_t row, const Fault& fault) const {
    if (row >= 0 && row < rows) return row;
    fault.report(row, rows);
    return 0;
  }
};

}  // namespace deckle::kernels::cuda::index
