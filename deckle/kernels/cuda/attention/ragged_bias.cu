// Bound by memory: a copy reads and writes 2 bytes an element of the bias.
// A warp takes 256 keys of a row at a time: 2 bytes a lane side by side where rows begin anywhere, 16 where they are aligned, and
// from one to the other through shared memory.
#include "deckle/kernels/cuda/attention/ragged_bias.h"

#include <algorithm>

#include "deckle/kernels/cuda/attention/backward_common.cuh"
#include "deckle/kernels/cuda/attention/bias_pieces.cuh"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/planes.cuh"
#include "deckle/kernels/cuda/attention/problem.cuh"

namespace deckle::kernels::cuda::attention {
namespace {

int heads_of(const CudaAttentionProblem& problem) { return problem.bias.head_stride != 0 ? problem.sizes.heads : 1; }

struct CopyArguments {
  DeviceProblem problem;
  CudaAttentionPlane from;
  BiasLayout layout;
  int first_head;
  int64_t* starts;
  uint16_t* to;
  int64_t head_elements;
};

// Block (tile of rows of a sequence, head, lane of pieces of rows).
__global__ void __launch_bounds__(kPieceThreads, 4) copy_bias(const __grid_constant__ CopyArguments args) {
  __shared__ __align__(16) uint16_t lines[kPieceWarps][kKeysAtOnce];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const DeviceProblem& problem = args.problem;
  const bool panels = args.layout.unit > 0;
  const int height = panels ? args.layout.unit : kBlockRows;
  const int sequence = sequence_of_block(problem.queries.offsets, problem.batch, height, blockIdx.x);
  const int64_t tile = blockIdx.x - first_block(problem.queries.offsets, sequence, height);
  const Sequence queries = problem.queries[sequence], keys = problem.keys[sequence];
  const int64_t start = args.layout.start(sequence, queries.start, keys.start);
  if (tile == 0 && blockIdx.y == 0 && blockIdx.z == 0 && threadIdx.x == 0) args.starts[sequence] = start;
  // Rows of the copy, of these those that there are, and elements of each.
  int rows = queries.length, first_live = 0, exist = rows;
  int64_t width = row_elements(keys.length), end = start + rows * width;
  if (panels) {
    const LiveRows live = live_rows(band_of(problem.mask, queries.length, keys.length), queries.length, keys.length);
    first_live = live.first;
    exist = live.count;
    rows = panel_rows(live.count, height);
    width = int64_t{panel_count(keys.length)} * kPanelKeys;
    end = kPanelKeys * panel_row(start, rows, panel_count(keys.length), 0);
  }
  if (tile < 0 || tile * height >= rows || end > args.head_elements) return;
  const int first_row = static_cast<int>(tile) * height, height_here = min(height, rows - first_row);
  const auto pieces = static_cast<int>((width + kKeysAtOnce - 1) / kKeysAtOnce);
  const HeadPlane<const uint16_t> from = head_plane<const uint16_t>(
      args.from, sequence, args.first_head + static_cast<int>(blockIdx.y), queries.length, keys.length);
  if (args.from.offsets != nullptr)
    exist = static_cast<int>(min(int64_t{exist}, rows_within(args.from, from.data, keys.length) - first_live));
  else
    exist = min(exist, static_cast<int>(args.from.rows) - first_live);
  const int columns = args.from.offsets != nullptr ? keys.length : min(keys.length, static_cast<int>(args.from.columns));
  uint16_t* const to = args.to + blockIdx.y * args.head_elements;
  for (int i = warp + kPieceWarps * static_cast<int>(blockIdx.z); i < height_here * pieces;
       i += kPieceWarps * static_cast<int>(gridDim.z)) {
    const int row = first_row + i / pieces, first = i % pieces * kKeysAtOnce;
    const uint16_t* const of_row = from.data + int64_t{first_live + row} * from.row_stride;
    uint16_t x[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int key = first + 32 * j + lane;
      x[j] = row < exist && key < columns ? of_row[key * from.column_stride] : uint16_t{0};
    }
    __syncwarp();  // the line before has been read
#pragma unroll
    for (int j = 0; j < 8; ++j) lines[warp][32 * j + lane] = x[j];
    __syncwarp();
    const uint4 chunk = *reinterpret_cast<const uint4*>(&lines[warp][8 * lane]);
    const int key = first + 8 * lane;
    if (key >= width) continue;
    const int64_t at =
        panels ? kPanelKeys * panel_row(start, rows, key / kPanelKeys, row) + panel_chunk(row, key) : start + row * width + key;
    *reinterpret_cast<uint4*>(to + at) = chunk;
  }
}

void copy(const CudaAttentionProblem& problem, const CopyArguments& args, int height, int heads, cudaStream_t stream) {
  const int64_t tiles = max_tiles(problem.sizes, Side::queries, height);
  if (tiles * heads == 0) return;
  launch_kernel("attention: copy of the bias", copy_bias,
                dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(heads), lanes_for(tiles * heads)), kPieceThreads, 0,
                stream, args);
}

int64_t row_elements_of_head(const CudaAttentionProblem& problem) { return bias_layout(problem, 0).size(problem.sizes); }

int64_t starts_bytes(const CudaAttentionProblem& problem) { return (8 * int64_t{problem.sizes.batch} + 255) / 256 * 256; }

}  // namespace

bool is_ragged(const CudaAttentionPlane& bias) {
  return bias.data != nullptr && bias.offsets != nullptr && bias.row_stride != 0 && bias.column_stride != 0;
}

BiasLayout bias_layout(const CudaAttentionProblem& problem, int unit) {
  const AttentionSizes& sizes = problem.sizes;
  const int64_t columns = problem.bias.columns,
                most_keys = sizes.most_keys > 0 ? std::min<int64_t>(columns, sizes.most_keys) : columns;
  const int64_t scores = is_ragged(problem.bias) ? problem.bias.elements / heads_of(problem) : sizes.query_rows * most_keys;
  return {problem.bias.offsets, scores, most_keys, heads_of(problem), unit};
}

int64_t bias_rows_bytes(const CudaAttentionProblem& problem) {
  if (!is_ragged(problem.bias)) return 0;
  return starts_bytes(problem) + (2 * heads_of(problem) * row_elements_of_head(problem) + 255) / 256 * 256;
}

CudaAttentionPlane bias_rows(const CudaAttentionProblem& problem, void* memory) {
  CudaAttentionPlane plane = problem.bias;
  plane.data = static_cast<char*>(memory) + starts_bytes(problem);
  plane.offsets = static_cast<const int64_t*>(memory);
  if (plane.head_stride != 0) plane.head_stride = row_elements_of_head(problem);
  return plane;
}

void make_bias_rows(const CudaAttentionProblem& problem, void* memory, cudaStream_t stream) {
  CopyArguments args{};
  args.problem = device_problem(problem);
  args.from = problem.bias;
  args.layout = bias_layout(problem, 0);
  args.starts = static_cast<int64_t*>(memory);
  args.to = static_cast<uint16_t*>(bias_rows(problem, memory).data);
  args.head_elements = row_elements_of_head(problem);
  copy(problem, args, kBlockRows, heads_of(problem), stream);
}

void make_bias_panels(const CudaAttentionProblem& problem, const BiasPanels& panels, int unit, int heads, cudaStream_t stream) {
  CopyArguments args{};
  args.problem = device_problem(problem);
  args.from = problem.bias;
  args.layout = bias_layout(problem, unit);
  args.first_head = panels.has_heads ? panels.first_head : 0;
  args.starts = const_cast<int64_t*>(panels.starts);
  args.to = panels.bias;
  args.head_elements = panels.head_rows * kPanelKeys;
  copy(problem, args, unit, heads, stream);
}

}  // namespace deckle::kernels::cuda::attention
