#pragma once

// A ragged shape on a device: its offsets, and the order of its rows, uploaded in the order of the stream.
#include <cstdint>

#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cuda::segment {

/// As kernels see it.
struct DeviceRagged {
  int64_t components;
  const int64_t* offsets;
  const int64_t* order;  // null: rows lie one after another

  __device__ int64_t row(int64_t i) const { return order == nullptr ? i : order[i]; }
  /// The component of row i.
  __device__ int64_t component(int64_t i) const {
    int64_t low = 0, high = components;  // the last whose offset is not above i
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      if (offsets[middle] <= i)
        low = middle;
      else
        high = middle;
    }
    while (offsets[low + 1] <= i) ++low;  // empty ones share an offset
    return low;
  }
};

class Uploaded {
 public:
  Uploaded(const Context& context, const RaggedView& ragged)
      : memory_((ragged.components + 1 + (ragged.order != nullptr ? ragged.rows() : 0)) * kItem, context.device),
        ragged_{ragged.components, memory_.as<int64_t>(), nullptr} {
    int64_t* const to = memory_.as<int64_t>();
    deckle::cuda::copy_bytes(to, context.device, ragged.offsets, {}, (ragged.components + 1) * kItem);
    if (ragged.order == nullptr) return;
    deckle::cuda::copy_bytes(to + ragged.components + 1, context.device, ragged.order, {}, ragged.rows() * kItem);
    ragged_.order = to + ragged.components + 1;
  }
  const DeviceRagged& ragged() const { return ragged_; }

 private:
  static constexpr int64_t kItem = sizeof(int64_t);
  deckle::cuda::Block memory_;
  DeviceRagged ragged_;
};

}  // namespace deckle::kernels::cuda::segment
