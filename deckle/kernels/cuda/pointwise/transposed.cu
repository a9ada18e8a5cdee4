// Copies whose source and target are contiguous along different dims.
//
//   rung                                        [65536, 1024] transposed, float32, at 4.3 TB/s (floor 0.125 ms)
//   a thread an element, reads 4 KB apart       0.545 ms
//   tiles of 64 x 64 through shared memory      0.144 ms, halves 0.112: both sides in runs of 64 elements; a row of a tile is one
//                                               element longer: no bank twice
//   halves: tiles of 128 x 128                  0.071 ms: 16 bytes at a time on both sides, in runs of 256; two rows meet in a
//                                               word of shared memory, whose pieces of 16 bytes are permuted: no bank twice
// benchmarks/results/gpu_ops.json, H200, of 7c1f602 (2026-11-22), c5991f0d (2026-11-23) and 78c31097 (2026-11-24); PyTorch 0.485.
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

  struct Start {
    int64_t from, to;
  };
  /// Where matrix `number` begins, in elements.
  __device__ Start start(int64_t number) const {
    Start at{0, 0};
    for (int d = 0; d < others; ++d) {
      const int64_t quotient = number / sizes[d], place = number - quotient * sizes[d];
      at.from += place * from_strides[d];
      at.to += place * to_strides[d];
      number = quotient;
    }
    return at;
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) move_tiles(const __grid_constant__ Transposed t) {
  __shared__ T tile[kTile][kTile + 4 / sizeof(T) + (sizeof(T) > 4 ? 1 : 0)];
  const int64_t row0 = blockIdx.x / t.across * kTile, column0 = blockIdx.x % t.across * kTile;
  const auto [from_offset, to_offset] = t.start(blockIdx.y);
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

constexpr int kWideTile = 128;

/// Elements of 2 bytes, all sizes, strides and places whole pieces of 16 bytes.
__global__ void __launch_bounds__(kThreads) move_halves(const __grid_constant__ Transposed t) {
  constexpr int kPieces = kWideTile / 8;      // of a row or column of a tile
  __shared__ uint4 tile[kWideTile][kPieces];  // [column][piece of rows ^ column / 8 % kPieces]
  const int64_t row0 = blockIdx.x / t.across * kWideTile, column0 = blockIdx.x % t.across * kWideTile;
  const auto [from_offset, to_offset] = t.start(blockIdx.y);
  const auto* const from = static_cast<const uint16_t*>(t.from) + from_offset;
  auto* const to = static_cast<uint16_t*>(t.to) + to_offset;
  const int thread = static_cast<int>(threadIdx.x), piece = thread % kPieces, slow = thread / kPieces;
  constexpr int kAtOnce = kThreads / kPieces, kLoads = kWideTile / kAtOnce;
  uint4 raw[kLoads];
  const int64_t row = row0 + 8 * piece;
#pragma unroll
  for (int u = 0; u < kLoads; ++u) {
    const int64_t column = column0 + slow + u * kAtOnce;
    if (row < t.rows && column < t.columns) raw[u] = *reinterpret_cast<const uint4*>(from + row + column * t.from_column);
  }
#pragma unroll
  for (int u = 0; u < kLoads; ++u) {
    const int at = slow + u * kAtOnce;
    tile[at][piece ^ (at / 8)] = raw[u];
  }
  __syncthreads();
  // A warp: four words, of two rows each, by eight pieces of columns.
  const int lane = thread % 32, warp = thread / 32;
#pragma unroll
  for (int u = 0; u < 4; ++u) {
    const int across = lane % 8 + u % 2 * 8, down = 2 * (4 * (2 * warp + u / 2) + lane / 8);  // a piece of columns; a row
    uint32_t words[8];
#pragma unroll
    for (int k = 0; k < 8; ++k)
      words[k] = reinterpret_cast<const uint32_t*>(&tile[8 * across + k][(down / 8) ^ across])[down / 2 % 4];
    const int64_t column = column0 + 8 * across;
    if (row0 + down >= t.rows || column >= t.columns) continue;
    uint16_t* const target = to + (row0 + down) * t.to_row + column;
    const auto both = [&](int k, uint32_t halves) { return __byte_perm(words[k], words[k + 1], halves); };
    __stwb(reinterpret_cast<uint4*>(target), make_uint4(both(0, 0x5410), both(2, 0x5410), both(4, 0x5410), both(6, 0x5410)));
    __stwb(reinterpret_cast<uint4*>(target + t.to_row),
           make_uint4(both(0, 0x7632), both(2, 0x7632), both(4, 0x7632), both(6, 0x7632)));
  }
}

/// Whether every row and column of both sides begins at 16 bytes and has whole pieces of 16.
bool in_pieces_of_halves(const Transposed& t) {
  const auto whole = [](int64_t elements) { return elements % 8 == 0; };
  bool fits = whole(t.rows) && whole(t.columns) && whole(t.from_column) && whole(t.to_row) &&
              reinterpret_cast<uintptr_t>(t.from) % 16 == 0 && reinterpret_cast<uintptr_t>(t.to) % 16 == 0;
  for (int d = 0; d < t.others; ++d) fits = fits && whole(t.from_strides[d]) && whole(t.to_strides[d]);
  return fits;
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
  t.others = 0;
  int64_t batch = 1;
  for (int d = 1; d < walk.dims; ++d) {
    if (d == other) continue;
    t.sizes[t.others] = walk.sizes[d];
    t.from_strides[t.others] = from.strides[d];
    t.to_strides[t.others++] = to.strides[d];
    batch *= walk.sizes[d];
  }
  const bool halves = item_size(source.dtype) == 2 && in_pieces_of_halves(t);
  const int64_t edge = halves ? kWideTile : kTile;
  t.across = (t.columns + edge - 1) / edge;
  const int64_t tiles = (t.rows + edge - 1) / edge * t.across;
  if (batch > 65535 || tiles >= int64_t{1} << 31) return false;
  const deckle::cuda::DeviceGuard guard(context.device);
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(batch));
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  if (halves)
    move_halves<<<grid, kThreads, 0, stream>>>(t);
  else
    visit_item(source.dtype, [&]<typename T>(TypeTag<T>) { move_tiles<T><<<grid, kThreads, 0, stream>>>(t); });
  deckle::cuda::check_launch(context.device);
  return true;
}

}  // namespace deckle::kernels::cuda::pointwise
