// Host side of the attention backward: three launches (five if ragged), no synchronisation.
//   list_tiles       ragged: the tiles of both sides, longest first
//   short_gradients  ragged: all of dQ, dK, dV of sequences that have one tile of scores
//   row_statistics   lse2 and delta = dO . O - dLSE
//   key_gradients    dK, dV: key tiles walk queries      4 products
//   query_gradients  dQ: query tiles walk keys           3 products
// Two kernels instead of one recompute S and dP (14 instead of 10 M N D) and need no sum between blocks: results are bit-equal
// from run to run, without an accumulator in memory.
#include "deckle/kernels/cuda/attention/backward.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "deckle/kernels/cuda/attention/backward_kernels.h"
#include "deckle/kernels/cuda/attention/backward_short.cuh"
#include "deckle/kernels/cuda/attention/backward_statistics.cuh"
#include "deckle/kernels/cuda/attention/problem.cuh"

namespace deckle::kernels::cuda {
namespace {

using namespace attention;

// What a walk of all heads of a chunk may touch and still stay in the 60 MB of L2 beside the tiles in flight.
constexpr int64_t kChunkBytes = 24 << 20;

// Heads of a chunk at least, where tiles differ in cost: a chunk of few heads ends with a few long tiles and nothing to run
// beside them. What the chunk touches may then exceed L2, but some eight blocks still walk the same head together.
constexpr int64_t kUnequalChunk = 16;

// What the instances of the problem's element type and head dims offer together.
BackwardKernels kernels_of(const AttentionProblem& problem) {
  BackwardKernels found;
  const auto take = [](BackwardKernel& to, const BackwardKernel& from) {
    if (from.function != nullptr) to = from;
  };
  for (const BackwardInstance& instance : backward_instances()) {
    if (instance.element != problem.element || instance.head_dim != problem.sizes.head_dim ||
        instance.value_dim != problem.sizes.value_dim) {
      continue;
    }
    take(found.key_gradients, instance.kernels.key_gradients);
    take(found.query_gradients, instance.kernels.query_gradients);
    take(found.short_gradients, instance.kernels.short_gradients);
    take(found.all_gradients, instance.kernels.all_gradients);
    if (instance.kernels.convert_query_gradients != nullptr) {
      found.convert_query_gradients = instance.kernels.convert_query_gradients;
    }
  }
  return found;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

int64_t tiles_of(const AttentionSizes& sizes, int64_t rows, int height) {
  return sizes.ragged() ? rows / height + sizes.batch : ceil_div(rows, height) * sizes.batch;
}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess)
    throw std::runtime_error(std::string("attention backward: ") + what + ": " + cudaGetErrorString(status));
}

// The live rows of a dense batch end here; the key kernel's maps of q and dO end there too.
int64_t live_end(const AttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  const AttentionMask& mask = problem.mask;
  if (mask.left >= kUnboundedWindow) return sizes.query_rows;
  const int64_t offset = mask.bottom_right ? sizes.key_rows - sizes.query_rows : 0;
  return std::clamp<int64_t>(sizes.key_rows + mask.left - offset, 0, sizes.query_rows);
}

// An empty tensor may come without memory; its map is never read but must be made.
CUtensorMap map_of(AttentionTensor tensor, const AttentionProblem& problem, const AttentionSizes& sizes, bool key_side,
                   int columns, int box_rows) {
  if (tensor.data == nullptr) tensor.data = problem.workspace;
  return operand_map(tensor, sizes, key_side, columns, box_rows);
}

template <arch::Element element>
const void* statistics_kernel(int lanes) {
  switch (lanes) {
    case 8:
      return reinterpret_cast<const void*>(&row_statistics<element, 8>);
    case 16:
      return reinterpret_cast<const void*>(&row_statistics<element, 16>);
    default:
      return reinterpret_cast<const void*>(&row_statistics<element, 32>);
  }
}

enum class Start { after_predecessor, beside_predecessor };

void launch(const void* function, dim3 grid, int threads, int shared_bytes, const void* arguments, Start start,
            cudaStream_t stream) {
  if (shared_bytes > 0) allow_shared_memory(function, shared_bytes);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = start == Start::beside_predecessor ? 1 : 0;
  void* parameters[] = {const_cast<void*>(arguments)};
  check(cudaLaunchKernelExC(&config, function, parameters), "launch");
}

void launch_convert(const void* function, dim3 grid, BackwardArguments arguments, AttentionTensor grad_q, cudaStream_t stream) {
  void* parameters[] = {&arguments, &grad_q};
  check(cudaLaunchKernel(function, grid, dim3(256), parameters, 0, stream), "launch");
}

/// Persistent blocks, one a multiprocessor, draw the tiles.
void launch_tiles(const BackwardKernel& kernel, BackwardArguments& arguments, const AttentionSizes& sizes, int64_t rows,
                  int heads, int64_t walked_bytes_per_head, Start start, cudaStream_t stream) {
  const int64_t tiles = tiles_of(sizes, rows, kernel.owned_rows);
  if (rows == 0 || tiles == 0 || heads == 0) return;
  if (tiles * heads >= INT32_MAX) throw std::runtime_error("attention backward: more than 2^31 tiles");
  arguments.tiles = static_cast<int>(ceil_div(rows, kernel.owned_rows));
  const int64_t all_heads = sizes.ragged() ? heads : int64_t{sizes.batch} * heads;
  const bool equal_costs = !sizes.ragged() && arguments.left >= kUnboundedWindow && arguments.right >= kUnboundedWindow;
  const int64_t chunk =
      std::max(kChunkBytes / std::max<int64_t>(walked_bytes_per_head, 1), equal_costs ? int64_t{1} : kUnequalChunk);
  arguments.chunk_heads = static_cast<int>(std::clamp<int64_t>(chunk, 1, all_heads));
  const dim3 grid(static_cast<unsigned>(std::min<int64_t>(multiprocessors(), tiles * heads)));
  launch(kernel.function, grid, kernel.threads, kernel.shared_bytes, &arguments, start, stream);
}

/// Parts of the workspace, in bytes from its start.
struct Workspace {
  int64_t key_list, query_list, lse2, delta, sums, bytes;
};

// All gradients by one kernel, in no fixed order.
bool unordered(const AttentionBackward& arguments, const BackwardKernels& kernels) {
  return !arguments.deterministic && kernels.all_gradients.function != nullptr;
}

// The counters of both kernels come first.
Workspace workspace_of(const AttentionBackward& arguments, const BackwardKernels& kernels) {
  const AttentionProblem& problem = arguments.problem;
  const AttentionSizes& sizes = problem.sizes;
  const int unit = kernels.key_gradients.walked_rows;
  const int64_t statistics =
      int64_t{sizeof(float)} * sizes.heads * unit * std::max<int64_t>(tiles_of(sizes, sizes.query_rows, unit), 1);
  Workspace w;
  w.key_list = 256;
  w.query_list = w.key_list + work_list_bytes(sizes, Side::keys, kernels.key_gradients.owned_rows);
  w.lse2 = w.query_list + work_list_bytes(sizes, Side::queries, kernels.query_gradients.owned_rows);
  w.delta = w.lse2 + statistics;
  w.sums = (w.delta + statistics + 255) / 256 * 256;
  w.bytes = w.sums + (unordered(arguments, kernels) ? statistics * sizes.head_dim : 0);
  return w;
}

}  // namespace

int64_t attention_backward_workspace_bytes(const AttentionBackward& arguments) {
  const BackwardKernels kernels = kernels_of(arguments.problem);
  return kernels.key_gradients.function == nullptr ? 0 : workspace_of(arguments, kernels).bytes;
}

std::string attention_backward_why_not(const AttentionBackward& arguments) {
  const AttentionProblem& problem = arguments.problem;
  const AttentionSizes& sizes = problem.sizes;
  if (kernels_of(problem).key_gradients.function == nullptr) {
    std::string served;
    for (const BackwardInstance& instance : backward_instances()) {
      if (instance.element != problem.element || instance.kernels.key_gradients.function == nullptr) continue;
      served += (served.empty() ? "" : ", ") + std::to_string(instance.head_dim) + "/" + std::to_string(instance.value_dim);
    }
    return "head_dim/value_dim is " + std::to_string(sizes.head_dim) + "/" + std::to_string(sizes.value_dim) + " (serves " +
           served + ")";
  }
  if (sizes.kv_heads <= 0 || sizes.heads % sizes.kv_heads != 0) {
    return std::to_string(sizes.heads) + " heads are no multiple of " + std::to_string(sizes.kv_heads) + " kv heads";
  }
  if ((sizes.query_offsets == nullptr) != (sizes.key_offsets == nullptr))
    return "only one of query_offsets and key_offsets is given";
  if (sizes.query_rows > INT32_MAX / 2 || sizes.key_rows > INT32_MAX / 2) return "more than 2^30 rows";
  const std::pair<const char*, const AttentionTensor*> tensors[] = {{"q", &problem.q},
                                                                    {"k", &problem.k},
                                                                    {"v", &problem.v},
                                                                    {"out", &problem.out},
                                                                    {"grad_out", &arguments.grad_out},
                                                                    {"grad_q", &arguments.grad_q},
                                                                    {"grad_k", &arguments.grad_k},
                                                                    {"grad_v", &arguments.grad_v}};
  for (const auto& [name, tensor] : tensors) {
    const int64_t strides = tensor->row_stride | tensor->head_stride | (sizes.ragged() ? 0 : tensor->batch_stride);
    if (reinterpret_cast<uintptr_t>(tensor->data) % 16 != 0) return std::string(name) + " is not aligned to 16 bytes";
    if (strides % 8 != 0) return std::string("a stride of ") + name + " is no multiple of 8 elements";
  }
  if (problem.lse == nullptr && sizes.query_rows > 0) return "lse, which the forward wrote, is missing";
  const int64_t needed = attention_backward_workspace_bytes(arguments);
  if (problem.workspace_bytes < needed) {
    return "the workspace has " + std::to_string(problem.workspace_bytes) + " bytes, " + std::to_string(needed) + " are needed";
  }
  return {};
}

void attention_backward(const AttentionBackward& arguments, cudaStream_t stream) {
  if (const std::string reason = attention_backward_why_not(arguments); !reason.empty()) {
    throw std::runtime_error("attention backward: " + reason);
  }
  const AttentionProblem& problem = arguments.problem;
  const AttentionSizes& sizes = problem.sizes;
  if (sizes.batch == 0 || sizes.heads == 0) return;
  const BackwardKernels kernels = kernels_of(problem);
  const int unit = kernels.key_gradients.walked_rows;

  StatisticsArguments statistics{};
  BackwardArguments& common = statistics.common;
  common.query_offsets = sizes.query_offsets;
  common.key_offsets = sizes.key_offsets;
  common.statistics_rows = tiles_of(sizes, sizes.query_rows, unit) * unit;
  common.statistics_unit = unit;
  common.batch = sizes.batch;
  common.heads = sizes.heads;
  common.group = sizes.heads / sizes.kv_heads;
  common.query_rows = static_cast<int>(sizes.query_rows);
  common.key_rows = static_cast<int>(sizes.key_rows);
  common.left = problem.mask.left;
  common.right = problem.mask.right;
  common.bottom_right = problem.mask.bottom_right;
  common.scale = problem.scale;
  common.scale_log2 = problem.scale * 1.4426950408889634f;
  const Workspace workspace = workspace_of(arguments, kernels);
  auto* memory = static_cast<char*>(problem.workspace);
  statistics.counters = reinterpret_cast<int*>(memory);
  statistics.lse2 = reinterpret_cast<float*>(memory + workspace.lse2);
  statistics.delta = reinterpret_cast<float*>(memory + workspace.delta);
  common.lse2 = statistics.lse2;
  common.delta_from_lse2 = statistics.delta - statistics.lse2;
  common.skip_short = sizes.ragged() && kernels.short_gradients.function != nullptr;

  if (sizes.ragged()) {
    make_work_lists(problem,
                    {{Side::keys, kernels.key_gradients.owned_rows, memory + workspace.key_list},
                     {Side::queries, kernels.query_gradients.owned_rows, memory + workspace.query_list}},
                    common.skip_short ? kShortRows : -1, stream);
    check(cudaGetLastError(), "work lists");
  }
  const auto use_list = [](BackwardArguments& to, const char* list) {
    to.list = reinterpret_cast<const WorkListHeader*>(list);
    to.items = reinterpret_cast<const WorkItem*>(to.list + 1);
  };
  const bool one_pass = unordered(arguments, kernels) && sizes.query_rows > 0 && sizes.key_rows > 0;
  if (one_pass) {
    common.sums = reinterpret_cast<float*>(memory + workspace.sums);
    check(cudaMemsetAsync(common.sums, 0, workspace.bytes - workspace.sums, stream), "sums");
  }
  if (sizes.query_rows == 0) {
    check(cudaMemsetAsync(statistics.counters, 0, 2 * sizeof(int), stream), "counters");
  } else {
    statistics.out = problem.out.data;
    statistics.grad_out = arguments.grad_out.data;
    const auto strides = [](int64_t(&to)[3], const AttentionTensor& from) {
      to[0] = from.batch_stride;
      to[1] = from.row_stride;
      to[2] = from.head_stride;
    };
    strides(statistics.out_strides, problem.out);
    strides(statistics.grad_out_strides, arguments.grad_out);
    statistics.lse = problem.lse;
    statistics.grad_lse = arguments.grad_lse;
    statistics.lse_head_stride = sizes.query_rows;
    statistics.lse_batch_stride = sizes.query_rows * sizes.heads;
    statistics.value_dim = sizes.value_dim;
    const int lanes = sizes.value_dim <= 64 ? 8 : sizes.value_dim <= 128 ? 16 : 32;
    const void* function = problem.element == AttentionElement::bf16 ? statistics_kernel<arch::Element::bf16>(lanes)
                                                                     : statistics_kernel<arch::Element::f16>(lanes);
    const int height = sizes.ragged() ? kernels.query_gradients.owned_rows : unit;
    statistics.list_rows = height;
    if (sizes.ragged()) use_list(common, memory + workspace.query_list);
    const dim3 grid(static_cast<unsigned>(tiles_of(sizes, sizes.query_rows, height)), ceil_div(sizes.heads, kStatisticsHeads));
    launch(function, grid, 256, 0, &statistics, Start::after_predecessor, stream);
  }

  const int row_bytes = 2 * (sizes.head_dim + sizes.value_dim);
  const int64_t sequences = sizes.ragged() ? std::max(sizes.batch, 1) : 1;
  {
    BackwardArguments keys = common;
    const BackwardKernel& kernel = one_pass ? kernels.all_gradients : kernels.key_gradients;
    keys.next = statistics.counters;
    if (sizes.ragged()) use_list(keys, memory + workspace.key_list);
    AttentionSizes live = sizes;
    if (!sizes.ragged()) live.query_rows = live_end(problem);
    keys.q = map_of(problem.q, problem, live, false, sizes.head_dim, kernel.walked_rows);
    keys.grad_out = map_of(arguments.grad_out, problem, live, false, sizes.value_dim, kernel.walked_rows);
    keys.k = map_of(problem.k, problem, sizes, true, sizes.head_dim, kernel.owned_rows);
    keys.v = map_of(problem.v, problem, sizes, true, sizes.value_dim, kernel.owned_rows);
    keys.grad_k = map_of(arguments.grad_k, problem, sizes, true, sizes.head_dim, 16);
    keys.grad_v = map_of(arguments.grad_v, problem, sizes, true, sizes.value_dim, 16);
    launch_tiles(kernel, keys, sizes, sizes.key_rows, sizes.kv_heads, sizes.query_rows / sequences * row_bytes * common.group,
                 Start::beside_predecessor, stream);
  }
  if (one_pass) {
    const dim3 grid(static_cast<unsigned>(tiles_of(sizes, sizes.query_rows, unit)), sizes.heads);
    launch_convert(kernels.convert_query_gradients, grid, common, arguments.grad_q, stream);
  } else {
    BackwardArguments queries = common;
    const BackwardKernel& kernel = kernels.query_gradients;
    queries.next = statistics.counters + 1;
    if (sizes.ragged()) use_list(queries, memory + workspace.query_list);
    queries.q = map_of(problem.q, problem, sizes, false, sizes.head_dim, kernel.owned_rows);
    queries.grad_out = map_of(arguments.grad_out, problem, sizes, false, sizes.value_dim, kernel.owned_rows);
    queries.k = map_of(problem.k, problem, sizes, true, sizes.head_dim, kernel.walked_rows);
    queries.v = map_of(problem.v, problem, sizes, true, sizes.value_dim, kernel.walked_rows);
    queries.grad_q = map_of(arguments.grad_q, problem, sizes, false, sizes.head_dim, 16);
    launch_tiles(kernel, queries, sizes, sizes.query_rows, sizes.heads, sizes.key_rows / sequences * row_bytes,
                 sizes.key_rows > 0 ? Start::beside_predecessor : Start::after_predecessor, stream);
  }
  if (common.skip_short) {
    const BackwardKernel& kernel = kernels.short_gradients;
    ShortArguments shorts{};
    shorts.common = common;
    const auto map = [&](const AttentionTensor& tensor, bool key_side, int columns, int box_rows) {
      return map_of(tensor, problem, sizes, key_side, columns, box_rows);
    };
    shorts.common.q = map(problem.q, false, sizes.head_dim, kShortRows);
    shorts.common.grad_out = map(arguments.grad_out, false, sizes.value_dim, kShortRows);
    shorts.common.k = map(problem.k, true, sizes.head_dim, kShortRows);
    shorts.common.v = map(problem.v, true, sizes.value_dim, kShortRows);
    shorts.common.grad_q = map(arguments.grad_q, false, sizes.head_dim, 16);
    shorts.common.grad_k = map(arguments.grad_k, true, sizes.head_dim, 16);
    shorts.common.grad_v = map(arguments.grad_v, true, sizes.value_dim, 16);
    shorts.lse = problem.lse;
    shorts.grad_lse = arguments.grad_lse;
    shorts.lse_head_stride = sizes.query_rows;
    shorts.grad_q = arguments.grad_q;
    shorts.grad_k = arguments.grad_k;
    shorts.grad_v = arguments.grad_v;
    for (int first = 0; first < sizes.batch; first += 65535) {
      shorts.first_sequence = first;
      const dim3 grid(sizes.kv_heads, std::min(sizes.batch - first, 65535));
      launch(kernel.function, grid, kernel.threads, kernel.shared_bytes, &shorts, Start::beside_predecessor, stream);
    }
  }
}

}  // namespace deckle::kernels::cuda
