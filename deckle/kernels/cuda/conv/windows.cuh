#pragma once

#include <cstdint>

#include "deckle/kernels/cuda/segment/ragged.cuh"

namespace deckle::kernels::cuda::conv {

using segment::DeviceRagged;

/// Windows along sequences: tap t of window w of a sequence reads its row w stride + t dilation - lead, if there is one.
struct Windows {
  DeviceRagged rows, windows;
  int64_t stride, dilation, lead;

  /// The packed row that tap `tap` of packed window `at` reads; -1: none.
  __device__ int64_t row(int64_t at, int64_t tap) const {
    const int64_t b = windows.component(at), begin = rows.offsets[b], length = rows.offsets[b + 1] - begin;
    const int64_t row = (at - windows.offsets[b]) * stride + tap * dilation - lead;
    return row >= 0 && row < length ? begin + row : -1;
  }
  /// The packed window whose tap `tap` reads packed row `at`; -1: none.
  __device__ int64_t window(int64_t at, int64_t tap) const {
    const int64_t b = rows.component(at), start = at - rows.offsets[b] + lead - tap * dilation;
    const int64_t begin = windows.offsets[b], count = windows.offsets[b + 1] - begin;
    return start >= 0 && start % stride == 0 && start / stride < count ? begin + start / stride : -1;
  }
};

inline unsigned blocks_of(int64_t count) { return static_cast<unsigned>((count + 255) / 256); }

}  // namespace deckle::kernels::cuda::conv
