// Bound by memory: 2 bytes a score of each head, from panels of a ragged batch, or from planes of a dense one.
#include "deckle/kernels/cuda/attention/bias_gradient.h"

#include <algorithm>

#include "deckle/kernels/cuda/arch/warp.cuh"
#include "deckle/kernels/cuda/attention/backward_common.cuh"
#include "deckle/kernels/cuda/attention/bias_pieces.cuh"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/planes.cuh"
#include "deckle/kernels/cuda/attention/problem.cuh"
#include "deckle/kernels/cuda/attention/score_sums.cuh"

namespace deckle::kernels::cuda::attention {
namespace {

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
__global__ void __launch_bounds__(kPieceThreads, 4) sum_bias_gradient(const __grid_constant__ SumArguments args) {
  __shared__ __align__(16) float lines[kPieceWarps][kKeysAtOnce];
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
  for (int i = warp + kPieceWarps * static_cast<int>(blockIdx.z); i < rows * pieces;
       i += kPieceWarps * static_cast<int>(gridDim.z)) {
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
        add_chunk(args.element, __ldg(reinterpret_cast<const uint4*>(from)), sum);
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

}  // namespace

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
                dim3(static_cast<unsigned>(strips), static_cast<unsigned>(heads), lanes_for(strips * heads)), kPieceThreads, 0,
                stream, args);
}

void sum_score_gradients(const AttentionBackward& arguments, const CudaAttentionPlane& from, const ScoreTurn& turn, float* sums,
                         cudaStream_t stream) {
  SumArguments args{};
  args.to = arguments.grad_bias;
  args.to.data = static_cast<uint16_t*>(args.to.data) + turn.first_sequence * args.to.sequence_stride +
                 turn.first_head * args.to.head_stride;
  args.element = element_of(arguments.problem);
  args.planes = {.from = from,
                 .sequences = turn.sequences,
                 .heads = turn.heads,
                 .to_sequences = args.to.sequence_stride != 0 ? turn.sequences : 1,
                 .to_heads = args.to.head_stride != 0 ? turn.heads : 1,
                 .first = turn.first,
                 .last = turn.last,
                 .sums = sums};
  ScoreSums& planes = args.planes;
  planes.items =
      int64_t{(args.to.columns + kScoreChunk - 1) / kScoreChunk} * args.to.rows * planes.to_heads * planes.to_sequences;
  if (planes.items == 0) return;
  const int64_t blocks = std::min<int64_t>((planes.items + kPieceThreads - 1) / kPieceThreads, 1 << 20);
  launch_kernel("attention: gradient of the bias", sum_bias_gradient, static_cast<unsigned>(blocks), kPieceThreads, 0, stream,
                args);
}

}  // namespace deckle::kernels::cuda::attention
