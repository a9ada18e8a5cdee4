// Copies whose source and target are contiguous along different dims.
//
//   rung                                        [65536, 1024] transposed, float32, at 4.3 TB/s (floor 0.125 ms)
//   a thread an element, reads 4 KB apart       0.545 ms measured on an H200, PyTorch 0.485
//   tiles of 64 x 64 through shared memory      both sides in runs of 64 elements; a row of a tile is one element longer: no bank
//   twice
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/cuda/pointwise/transposed.h"

#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/cpu/pointwise/walk.h"

namespace deckle::kernels::cuda::pointwise {
namespace {

constexpr int kTile = 64, kThreads = 256, kFewest = 16;

/// The dim along which the target is contiguous, that along which the source is, and the others.
struct Transposed {
  const void* from;
  void* to;
  int64_t rows, columns;        // sizes of the source's and of the target's contiguous dim
  int64_t from_column, to_row;  // strides along the other one's
  int64_t across;               // tiles along columns
  int others;
  int64_t sizes[kMaxDims], from_strides[kMaxDims], to_strides[kMaxDims];
};

template <typename T>
__global__ void __launch_bounds__(kThreads) move_tiles(const __grid_constant__ Transposed t) {
  __shared__ T tile[kTile][kTile + 4 / sizeof(T) + (sizeof(T) > 4 ? 1 : 0)];
  const int64_t row0 = blockIdx.x / t.across * kTile, column0 = blockIdx.x % t.across * kTile;
  int64_t rest = blockIdx.y, from_offset = 0, to_offset = 0;
  for (int d = 0; d < t.others; ++d) {
    const int64_t quotient = rest / t.sizes[d], at = rest - quotient * t.sizes[d];
    from_offset += at * t.from_strides[d];
    to_offset += at * t.to_strides[d];
    rest = quotient;
  }
  const T* const from = static_cast<const T*>(t.from) + from_offset;
  T* const to = static_cast<T*>(t.to) + to_offset;
  const int fast = static_cast<int>(threadIdx.x) % kTile, slow = static_cast<int>(threadIdx.x) / kTile;
  constexpr int kAtOnce = kThreads / kTile;
#pragma unroll
  for (int i = 0; i < kTile; i += kAtOnce) {
    const int64_t row = row0 + fast, column = column0 + slow + i;
    if (row < t.rows && column < t.columns) tile[slow + i][fast] = from[row + column * t.from_column];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kTile; i += kAtOnce) {
    const int64_t row = row0 + slow + i, column = column0 + fast;
    if (row < t.rows && column < t.columns) to[row * t.to_row + column] = tile[fast][slow + i];
  }
}

}  // namespace

bool copy_transposed(const Context& context, const View& source, const View& target) {
  if (source.dtype != target.dtype || target.numel() == 0 || source.ndim < 2) return false;
  const cpu::pointwise::Walk walk = cpu::pointwise::make_walk({&source, 1}, {&target, 1});
  const auto &from = walk.operands[0], &to = walk.operands[1];
  if (walk.dims < 2 || to.strides[0] != 1 || from.strides[0] == 1 || walk.sizes[0] < kFewest) return false;
  int other = 0;
  for (int d = 1; d < walk.dims; ++d) {
    if (from.strides[d] == 1 && walk.sizes[d] >= kFewest) other = d;
  }
  if (other == 0 || from.table != nullptr) return false;
  Transposed t;
  t.from = from.data;
  t.to = to.data;
  t.rows = walk.sizes[other];
  t.columns = walk.sizes[0];
  t.from_column = from.strides[0];
  t.to_row = to.strides[other];
  t.across = (t.columns + kTile - 1) / kTile;
  t.others = 0;
  int64_t batch = 1;
  for (int d = 1; d < walk.dims; ++d) {
    if (d == other) continue;
    t.sizes[t.others] = walk.sizes[d];
    t.from_strides[t.others] = from.strides[d];
    t.to_strides[t.others++] = to.strides[d];
    batch *= walk.sizes[d];
  }
  const int64_t tiles = (t.rows + kTile - 1) / kTile * t.across;
  if (batch > 65535 || tiles >= int64_t{1} << 31) return false;
  const deckle::cuda::DeviceGuard guard(context.device);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(batch));
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  visit_item(source.dtype, [&]<typename T>(TypeTag<T>) { move_tiles<T><<<grid, kThreads, 0, stream>>>(t); });
  deckle::cuda::check_launch(context.device);
  return true;
}

}  // namespace deckle::kernels::cuda::pointwise
