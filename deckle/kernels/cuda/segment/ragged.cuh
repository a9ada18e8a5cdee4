#pragma once

// A ragged shape on a device: its offsets, and the order of its rows.
#include <cstdint>

#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/mirror.h"
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

/// An array of a ragged shape on the device: its own copy (core/cuda/mirror.h), or, where nobody keeps the array, one that lasts
/// as long as this.
struct DeviceArray {
  DeviceArray(const Context& context, const int64_t* host, int64_t count)
      : data(count > 0 ? deckle::cuda::mirror_of(host, context.device) : nullptr),
        own(data == nullptr ? count * static_cast<int64_t>(sizeof(int64_t)) : 0, context.device) {
    if (data != nullptr || count == 0) return;
    deckle::cuda::copy_bytes(own.as<void>(), context.device, host, {}, count * static_cast<int64_t>(sizeof(int64_t)));
    data = own.as<int64_t>();
  }
  const int64_t* data;
  deckle::cuda::Block own;
};

/// Of a ragged shape what DeviceRagged has.
class Uploaded {
 public:
  Uploaded(const Context& context, const RaggedView& ragged)
      : offsets_(context, ragged.offsets, ragged.components + 1),
        order_(context, ragged.order, ragged.order != nullptr ? ragged.rows() : 0),
        ragged_{ragged.components, offsets_.data, ragged.order != nullptr ? order_.data : nullptr} {}
  const DeviceRagged& ragged() const { return ragged_; }

 private:
  DeviceArray offsets_, order_;
  DeviceRagged ragged_;
};

}  // namespace deckle::kernels::cuda::segment
