#pragma once

// Reductions (reduce/kinds.cuh) of the rows of each component, column by column.       values: [rows, inner], result: [B, inner]
// A block takes a component and 32 columns, thread y the rows y, y + 8, ...; or, of few columns, one column by 256 threads. Parts
// are merged in the order of the threads: bits depend on the lengths alone. Reads every element once.
#include <cstdint>
#include <limits>
#include <string>

#include "deckle/base/error.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/cuda/reduce/kinds.cuh"
#include "deckle/kernels/cuda/segment/ragged.cuh"

namespace deckle::kernels::cuda::segment {

/// Packed values, element by element.
struct Values {
  const void* data = nullptr;
  DType dtype = DType::float32;
  int64_t inner = 1;  // elements of a row

  explicit Values(const View& view) : data(view.data), dtype(view.dtype) {
    for (int dim = 1; dim < view.ndim; ++dim) inner *= view.sizes[dim];
  }
  template <typename T>
  __device__ T get(int64_t row, int64_t column) const {
    return pointwise::load<T>(data, dtype, row * inner + column);
  }
  template <typename T>
  __device__ void put(T value, int64_t row, int64_t column) const {
    pointwise::store<T>(value, const_cast<void*>(data), dtype, row * inner + column);
  }
};

/// The columns that a block takes, and the rows its threads take at once.
template <int kColumns_>
struct Block {
  static constexpr int kColumns = kColumns_, kDepth = 256 / kColumns;
  /// Blocks of columns are a grid's second dim, or, beyond the 65,535 of that, multiples of all components in the first.
  __device__ static int64_t component(const DeviceRagged& ragged) { return blockIdx.x % ragged.components; }
  /// Of the values.
  __device__ static int64_t column_of(const DeviceRagged& ragged) {
    return (blockIdx.x / ragged.components + blockIdx.y) * kColumns + column();
  }
  __device__ static int column() { return static_cast<int>(threadIdx.x) % kColumns; }
  __device__ static int depth() { return static_cast<int>(threadIdx.x) / kColumns; }
};

/// What the threads of each column have, merged: every thread of the column gets it.
template <class Its, class R, typename Acc>
__device__ Acc merge_threads(const R& reduction, Acc acc, Acc* shared) {
  __syncthreads();
  Acc* const own = shared + threadIdx.x;
  *own = acc;
  for (int half = Its::kDepth / 2; half > 0; half /= 2) {
    __syncthreads();
    if (Its::depth() < half) *own = reduction.merge(*own, own[half * Its::kColumns]);
  }
  __syncthreads();
  return shared[Its::column()];
}

template <class Its, class R, typename T>
__global__ void __launch_bounds__(256) fold_kernel(Values values, DeviceRagged ragged, R reduction, reduce::Outputs outputs) {
  using Acc = typename R::Acc;
  __shared__ alignas(alignof(Acc)) char memory[256 * sizeof(Acc)];
  const int64_t component = Its::component(ragged), column = Its::column_of(ragged);
  const int64_t begin = ragged.offsets[component], end = ragged.offsets[component + 1];
  Acc acc = reduction.start();
  if (column < values.inner) {
    for (int64_t row = begin + Its::depth(); row < end; row += Its::kDepth)
      reduction.add(acc, values.get<T>(ragged.row(row), column), row);
  }
  acc = merge_threads<Its>(reduction, acc, reinterpret_cast<Acc*>(memory));
  if (Its::depth() == 0 && column < values.inner) reduction.finish(acc, end - begin, outputs, component * values.inner + column);
}

/// Calls launch(block tag, grid) for every component and column of `values`.
template <typename Launch>
void for_blocks(const Values& values, int64_t components, const Launch& launch) {
  const auto with = [&](auto block) {
    const int64_t columns = (values.inner + block.kColumns - 1) / block.kColumns;
    if (columns > 65535 && components * columns > std::numeric_limits<int32_t>::max())
      throw Error(std::to_string(components) + " components of " + std::to_string(values.inner) +
                  " elements a row are more than one launch takes (expected fewer, or shorter rows)");
    launch(block, columns <= 65535 ? dim3(static_cast<unsigned>(components), static_cast<unsigned>(columns))
                                   : dim3(static_cast<unsigned>(components * columns)));
  };
  if (values.inner >= 16)
    with(Block<32>());
  else
    with(Block<1>());
}

template <typename T, class R>
void fold(const Context& context, const View& self, const DeviceRagged& ragged, const R& reduction,
          const reduce::Outputs& outputs) {
  const Values values(self);
  for_blocks(values, ragged.components, [&](auto block, dim3 grid) {
    fold_kernel<decltype(block), R, T>
        <<<grid, 256, 0, deckle::cuda::stream_handle(context.device)>>>(values, ragged, reduction, outputs);
  });
  deckle::cuda::check_launch(context.device);
}

/// Of floating elements, in double.
template <class R>
void fold_rows(const Context& context, const View& self, const RaggedView& ragged, const R& reduction, const View& result) {
  if (result.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const Uploaded uploaded(context, ragged);
  fold<double>(context, self, uploaded.ragged(), reduction, {reduce::output_of(result), {}});
}

/// make(T()) gives the reduction in the type that self's elements are exact in.
template <typename Make>
void fold_exact(const Context& context, const View& self, const RaggedView& ragged, const View& result, const Make& make,
                const View& second = {}) {
  if (result.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const Uploaded uploaded(context, ragged);
  const reduce::Outputs outputs{reduce::output_of(result), reduce::output_of(second)};
  if (is_floating(self.dtype))
    fold<double>(context, self, uploaded.ragged(), make(double(), uploaded.ragged()), outputs);
  else
    fold<int64_t>(context, self, uploaded.ragged(), make(int64_t(), uploaded.ragged()), outputs);
}

}  // namespace deckle::kernels::cuda::segment
