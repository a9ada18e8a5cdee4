// gather and scatter_add: elements by index along a dim, and elements added up by index. index, result and the source of a
// scatter agree in all dims but that one, or are larger there.
//
// Elements that are added up are sorted by their place, stably, and then added in that order, in double (integers in int64): no
// atomics. Bits are those of every run.
#include "deckle/base/error.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cuda/index/fault.cuh"
#include "deckle/kernels/cuda/index/sorted.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda {

void copy(const Context&, const View& source, const View& target);

namespace {

using index::Fault;
using index::Indices;

/// Places of element n of the index, in row-major order: what it chooses, and the element that is added there.
struct Walked {
  int ndim, dim;
  int64_t sizes[kMaxDims];
  int64_t chosen[kMaxDims];  // strides of the operand that is chosen from, or added to
  int64_t source[kMaxDims];  // strides of the elements added
  int64_t rows;

  Walked(const View& index, int64_t along, const View& operand, const View& other)
      : ndim(index.ndim), dim(static_cast<int>(along)), rows(operand.ndim == 0 ? 1 : operand.sizes[along]) {
    for (int d = 0; d < ndim; ++d) {
      sizes[d] = index.sizes[d];
      chosen[d] = operand.strides[d];
      source[d] = other.strides[d];
    }
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

template <typename T>
__global__ void __launch_bounds__(256)
    take(const T* self, Indices indices, T* result, Walked walked, int64_t count, Fault fault) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (n >= count) return;
  int64_t unused = 0;
  result[n] = self[walked.places(n, walked.checked(indices.at(n), fault), unused)];
}

__global__ void __launch_bounds__(256)
    prepare(Indices indices, uint32_t* keys, uint32_t* positions, Walked walked, int64_t count, Fault fault) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (n >= count) return;
  int64_t from = 0;
  keys[n] = static_cast<uint32_t>(walked.places(n, walked.checked(indices.at(n), fault), from));
  positions[n] = static_cast<uint32_t>(from);
}

/// The first of equal keys adds all of them to their place.
template <typename T>
__global__ void __launch_bounds__(256)
    add(const uint32_t* keys, const uint32_t* positions, int64_t count, const void* source, void* result, DType dtype) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (first >= count || (first > 0 && keys[first - 1] == keys[first])) return;
  T total = pointwise::load<T>(result, dtype, keys[first]);
  for (int64_t i = first; i < count && keys[i] == keys[first]; ++i) total += pointwise::load<T>(source, dtype, positions[i]);
  pointwise::store(total, result, dtype, keys[first]);
}

unsigned blocks_of(int64_t count) { return static_cast<unsigned>((count + 255) / 256); }

template <typename T>
void gather_of(const Context& context, const View& self, int64_t dim, const View& index, const View& result) {
  take<T><<<blocks_of(index.numel()), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
      self.ptr<T>(), Indices(index), result.ptr<T>(), Walked(index, dim, self, index), index.numel(), Fault(context.device));
}

}  // namespace

void gather(const Context& context, const View& self, int64_t dim, const View& index, const View& result) {
  if (index.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  switch (item_size(self.dtype)) {
    case 1:
      gather_of<uint8_t>(context, self, dim, index, result);
      break;
    case 2:
      gather_of<uint16_t>(context, self, dim, index, result);
      break;
    case 4:
      gather_of<uint32_t>(context, self, dim, index, result);
      break;
    default:
      gather_of<uint64_t>(context, self, dim, index, result);
  }
  deckle::cuda::check_launch(context.device);
}

void scatter_add(const Context& context, const View& self, int64_t dim, const View& index, const View& src, const View& result) {
  copy(context, self, result);
  const int64_t count = index.numel();
  if (count == 0) return;
  if (result.numel() >= (int64_t{1} << 32) || src.numel() >= (int64_t{1} << 31))
    throw Error("the operands have too many elements for a GPU (expected fewer than 2^31)");
  const deckle::cuda::DeviceGuard guard(context.device);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  const deckle::cuda::Block memory(4 * count * static_cast<int64_t>(sizeof(uint32_t)), context.device);
  uint32_t* const keys = memory.as<uint32_t>();
  uint32_t *const positions = keys + count, *const sorted_keys = keys + 2 * count, *const sorted = keys + 3 * count;
  prepare<<<blocks_of(count), 256, 0, stream>>>(Indices(index), keys, positions, Walked(index, dim, result, src), count,
                                                Fault(context.device));
  index::sort_positions(context, keys, sorted_keys, positions, sorted, count, result.numel());
  if (is_floating(result.dtype))
    add<double><<<blocks_of(count), 256, 0, stream>>>(sorted_keys, sorted, count, src.data, result.data, result.dtype);
  else
    add<int64_t><<<blocks_of(count), 256, 0, stream>>>(sorted_keys, sorted, count, src.data, result.data, result.dtype);
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda
