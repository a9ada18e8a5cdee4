// Bound by memory: a copy reads and writes 2 bytes an element of the bias, the gradient 2 bytes a score of each head.
// A warp takes 256 keys of a row at a time: 2 bytes a lane side by side where rows begin anywhere, 16 where they are aligned, and
// from one to the other through shared memory.
#include "deckle/kernels/cuda/attention/ragged_bias.h"

#include <algorithm>

#include "deckle/kernels/cuda/arch/warp.cuh"
#include "deckle/kernels/cuda/attention/backward_common.cuh"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/planes.cuh"
#include "deckle/kernels/cuda/attention/problem.cuh"
#include "deckle/kernels/cuda/attention/score_sums.cuh"

namespace deckle::kernels::cuda::attention {
namespace {

constexpr int kWarps = 8, kThreads = 32 * kWarps, kKeysAtOnce = 256;

// Rows of a block of the copy with rows, and of the gradient.
constexpr int kBlockRows = 64;

// So many blocks are wanted, where there is work for them: eight a multiprocessor.
constexpr int64_t kBlocksWanted = 8 * kPlannedMultiprocessors;
constexpr int64_t kMostLanes = 64;

unsigned lanes_for(int64_t blocks) {
  return static_cast<unsigned>(std::clamp<int64_t>(kBlocksWanted / std::max<int64_t>(blocks, 1), 1, kMostLanes));
}

int heads_of(const CudaAttentionProblem& problem) { return problem.bias.head_stride != 0 ? problem.sizes.heads : 1; }

// Whatever the device says of offsets, no more rows are there of a ragged plane's head that begins at `data`.
__device__ __forceinline__ int64_t rows_within(const CudaAttentionPlane& plane, const uint16_t* data, int columns) {
  const int64_t before = data - static_cast<const uint16_t*>(plane.data);
  return before < 0 || before > plane.elements || columns == 0 ? 0 : (plane.elements - before) / columns;
}

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
__global__ void __launch_bounds__(kThreads, 4) copy_bias(const __grid_constant__ CopyArguments args) {
  __shared__ __align__(16) uint16_t lines[kWarps][kKeysAtOnce];
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
  for (int i = warp + kWarps * static_cast<int>(blockIdx.z); i < height_here * pieces;
       i += kWarps * static_cast<int>(gridDim.z)) {
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
                dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(heads), lanes_for(tiles * heads)), kThreads, 0, stream,
                args);
}

struct SumArguments {
  DeviceProblem problem;
  CudaAttentionPlane to;
  BiasPanels panels;
  BiasSum sum;
  Element element;
  ScoreSums planes;  // dense: in place of panels
};

// A sequence's panels of dS.
struct SequencePanels {
  int sequence = -1;
  int queries, keys, rows;
  LiveRows live;
  int64_t start;

  __device__ __forceinline__ void find(const SumArguments& args, int of) {
    if (of == sequence) return;
    sequence = of;
    queries = args.problem.queries[of].length;
    keys = args.problem.keys[of].length;
    live = live_rows(band_of(args.problem.mask, queries, keys), queries, keys);
    rows = panel_rows(live.count, args.sum.unit);
    start = args.panels.starts != nullptr ? args.panels.starts[of] : 0;
  }
};

// Block (strip of rows of the gradient of a sequence, or of all that share it; head, or all; lane of pieces of rows).
__global__ void __launch_bounds__(kThreads, 4) sum_bias_gradient(const __grid_constant__ SumArguments args) {
  __shared__ __align__(16) float lines[kWarps][kKeysAtOnce];
  if (args.planes.items > 0) return sum_planes(args.planes, args.to, args.element);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const DeviceProblem& problem = args.problem;
  const CudaAttentionPlane& plane = args.to;
  const BiasPanels& panels = args.panels;
  const bool ragged = plane.offsets != nullptr, one_head = plane.head_stride == 0;
  int begin, end, all_rows, columns;
  int64_t strip;
  if (ragged) {
    begin = sequence_of_block(problem.queries.offsets, problem.batch, kBlockRows, blockIdx.x);
    strip = blockIdx.x - first_block(problem.queries.offsets, begin, kBlockRows);
    end = begin + 1;
    all_rows = problem.queries[begin].length;
    columns = problem.keys[begin].length;
  } else {
    const int strips = (plane.rows + kBlockRows - 1) / kBlockRows, part = static_cast<int>(blockIdx.x) / strips;
    strip = static_cast<int>(blockIdx.x) % strips;
    begin = plane.sequence_stride != 0 ? part : 0;
    end = plane.sequence_stride != 0 ? part + 1 : problem.batch;
    all_rows = plane.rows;
    columns = plane.columns;
  }
  if (strip < 0 || strip * kBlockRows >= all_rows) return;
  const int first_row = static_cast<int>(strip) * kBlockRows;
  int rows = min(kBlockRows, all_rows - first_row);
  const int first_head = one_head ? 0 : static_cast<int>(blockIdx.y), heads = one_head ? args.sum.heads : 1;
  const HeadPlane<uint16_t> to =
      head_plane<uint16_t>(plane, begin, one_head ? 0 : panels.first_head + first_head, all_rows, columns);
  if (ragged) rows = static_cast<int>(min(int64_t{rows}, rows_within(plane, to.data, columns) - first_row));
  const int64_t head_elements = panels.head_rows * kPanelKeys;
  const int pieces = (columns + kKeysAtOnce - 1) / kKeysAtOnce;
  SequencePanels of;
  for (int i = warp + kWarps * static_cast<int>(blockIdx.z); i < rows * pieces; i += kWarps * static_cast<int>(gridDim.z)) {
    const int row = first_row + i / pieces, first = i % pieces * kKeysAtOnce, chunk = first + 8 * lane;
    float sum[8] = {};
    for (int sequence = begin; sequence < end; ++sequence) {
      of.find(args, sequence);
      if (row >= of.queries || first >= of.keys) continue;
      // Tiles that nobody visits hold anything; a chunk with a key that the row attends lies in none of these.
      const Interval attended = key_interval(problem.mask, row, of.queries, of.keys);
      if (attended.begin >= attended.end || chunk >= attended.end || chunk + 8 <= attended.begin) continue;
      const int live_row = row - of.live.first;
      const int64_t at = panel_row(of.start, of.rows, chunk / kPanelKeys, live_row);
      if (static_cast<uint64_t>(at) >= static_cast<uint64_t>(panels.head_rows)) continue;  // whatever the device says of offsets
      const uint16_t* from = panels.gradients + first_head * head_elements + kPanelKeys * at + panel_chunk(live_row, chunk);
#pragma unroll 4
      for (int head = 0; head < heads; ++head, from += head_elements) {
        const uint4 w = __ldg(reinterpret_cast<const uint4*>(from));
        const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const float2 pair = arch::unpack(args.element, words[j]);
          sum[2 * j] += pair.x;
          sum[2 * j + 1] += pair.y;
        }
      }
    }
    __syncwarp();  // the line before has been read
#pragma unroll
    for (int j = 0; j < 8; j += 4)
      *reinterpret_cast<float4*>(&lines[warp][8 * lane + j]) = make_float4(sum[j], sum[j + 1], sum[j + 2], sum[j + 3]);
    __syncwarp();
    const int64_t of_sums = ragged ? plane.offsets[begin] + int64_t{row} * columns
                                   : (int64_t{plane.sequence_stride != 0 ? begin : 0} * all_rows + row) * columns;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int key = first + 32 * j + lane;
      if (key >= columns) continue;
      float total = lines[warp][32 * j + lane];
      if (one_head && !args.sum.first) total = args.sum.sums[of_sums + key] + total;
      if (one_head && !args.sum.last) {
        args.sum.sums[of_sums + key] = total;
      } else {
        to.at(row, key) = static_cast<uint16_t>(arch::pack(args.element, total, 0.0f));
      }
    }
  }
}

Element element_of(const CudaAttentionProblem& problem) {
  return problem.element == AttentionElement::bf16 ? Element::bf16 : Element::f16;
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

int64_t bias_sum_elements(const AttentionSizes& sizes, const CudaAttentionPlane& grad_bias) {
  if (grad_bias.offsets != nullptr) return grad_bias.elements;
  return int64_t{grad_bias.rows} * grad_bias.columns * (grad_bias.sequence_stride != 0 ? sizes.batch : 1);
}

void add_bias_gradient(const AttentionBackward& arguments, const BiasPanels& panels, const BiasSum& sum, cudaStream_t stream) {
  const CudaAttentionProblem& problem = arguments.problem;
  const CudaAttentionPlane& plane = arguments.grad_bias;
  SumArguments args{};
  args.problem = device_problem(problem);
  args.to = plane;
  args.panels = panels;
  args.sum = sum;
  args.element = element_of(problem);
  const int64_t strips = plane.offsets != nullptr ? max_tiles(problem.sizes, Side::queries, kBlockRows)
                                                  : int64_t{(plane.rows + kBlockRows - 1) / kBlockRows} *
                                                        (plane.sequence_stride != 0 ? problem.sizes.batch : 1);
  const int heads = plane.head_stride != 0 ? sum.heads : 1;
  if (strips * heads == 0) return;
  launch_kernel("attention: gradient of the bias", sum_bias_gradient,
                dim3(static_cast<unsigned>(strips), static_cast<unsigned>(heads), lanes_for(strips * heads)), kThreads, 0, stream,
                args);
}

void sum_score_gradients(const AttentionBackward& arguments, const CudaAttentionPlane& from, cudaStream_t stream) {
  const AttentionSizes& sizes = arguments.problem.sizes;
  SumArguments args{};
  args.to = arguments.grad_bias;
  args.element = element_of(arguments.problem);
  args.planes = {.from = from,
                 .sequences = sizes.batch,
                 .heads = sizes.heads,
                 .to_sequences = args.to.sequence_stride != 0 ? sizes.batch : 1,
                 .to_heads = args.to.head_stride != 0 ? sizes.heads : 1};
  ScoreSums& planes = args.planes;
  planes.items =
      int64_t{(args.to.columns + kScoreChunk - 1) / kScoreChunk} * args.to.rows * planes.to_heads * planes.to_sequences;
  if (planes.items == 0) return;
  const int64_t blocks = std::min<int64_t>((planes.items + kThreads - 1) / kThreads, 1 << 20);
  launch_kernel("attention: gradient of the bias", sum_bias_gradient, static_cast<unsigned>(blocks), kThreads, 0, stream, args);
}

}  // namespace deckle::kernels::cuda::attention
