#pragma once

// Indices in device memory, and what a kernel does with one that is out of range: it says so, which the host is told at the next
// synchronisation, and goes on with a place that exists.
#include <cstdint>

#include "deckle/base/error.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cuda/pointwise/report.cuh"

namespace deckle::kernels::cuda::index {

struct Fault {
  deckle::cuda::IndexFault* words;

  explicit Fault(Device device) : words(deckle::cuda::index_fault(device)) {}
  __device__ void report(int64_t index, int64_t size) const {
    pointwise::report(words, deckle::cuda::index_out_of_range, index, size);
  }
};

struct Indices {
  const void* data;
  bool wide;  // int64, else int32

  explicit Indices(const View& view) : data(view.data), wide(view.dtype == DType::int64) {
    if (!wide && view.dtype != DType::int32) throw Error("indices are " + to_string(view.dtype) + " (expected int64 or int32)");
  }
  __device__ int64_t at(int64_t i) const {
    return wide ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
  }
};

}  // namespace deckle::kernels::cuda::index
