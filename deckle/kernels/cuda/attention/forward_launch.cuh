// Host side of one forward instance.
#pragma once

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>

#include "deckle/kernels/cuda/attention/forward.cuh"
#include "deckle/kernels/cuda/attention/instance.h"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/ragged_bias.h"

namespace deckle::kernels::cuda::attention {

/// How the last wave of a full mask is cut.
struct ForwardPlan {
  int64_t items, whole;
  int parts;
};

template <class Config>
ForwardPlan plan_forward(const CudaAttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  const int64_t items = max_tiles(sizes, Side::queries, Config::rows) * sizes.heads;
  ForwardPlan plan{items, items, 1};
  if (!equal_costs(problem) || Config::warpgroups == 1) return plan;
  // A part costs its share of the tiles; a cut that saves less than a quarter of a wave, or leaves short parts, does not pay.
  constexpr int kMostParts = 3, kLeastTiles = 16;
  const int64_t blocks = kPlannedMultiprocessors, rest = items % blocks;
  double best = 0.75;
  for (int parts = 2; parts <= kMostParts; ++parts) {
    const double cost = static_cast<double>((rest * parts + blocks - 1) / blocks) / parts;
    if (rest > 0 && cost <= best && sizes.key_rows / Config::keys >= kLeastTiles * parts) {
      best = cost - 1e-9;
      plan = {items, items - rest, parts};
    }
  }
  return plan;
}

/// Workspace of a dense problem: the counter, the arrivals of cut items, their partial results.
template <class Config>
struct ForwardWorkspace {
  explicit ForwardWorkspace(const ForwardPlan& plan) {
    const int64_t cut = plan.items - plan.whole;
    arrivals = sizeof(WorkListHeader);
    arrival_bytes = (cut * 4 * Config::warpgroups * int64_t{sizeof(int)} + 255) / 256 * 256;
    partial = arrivals + arrival_bytes;
    bytes = partial +
            (plan.parts > 1 ? cut * plan.parts * Config::warpgroups * (Config::Dv / 8 + 1) * 128 * int64_t{sizeof(float4)} : 0);
  }
  int64_t arrivals, arrival_bytes, partial, bytes;
};

/// Without walks and the copy of a ragged bias, which lie behind it.
template <class Config>
int64_t plain_workspace_bytes(const CudaAttentionProblem& problem) {
  return problem.sizes.ragged() ? work_list_bytes(problem.sizes, Side::queries, Config::rows)
                                : (ForwardWorkspace<Config>(plan_forward<Config>(problem)).bytes + 255) / 256 * 256;
}

template <class Config>
int64_t forward_workspace_bytes(const CudaAttentionProblem& problem) {
  if constexpr (!Config::scored) return plain_workspace_bytes<Config>(problem);
  return plain_workspace_bytes<Config>(problem) + tile_walks_bytes(problem, Side::queries, Config::rows, Config::keys) +
         bias_rows_bytes(problem);
}

template <class Config>
TileWalks walks_of(const CudaAttentionProblem& problem) {
  if (!has_walks(problem)) return {};
  return tile_walks(problem, Side::queries, Config::rows, Config::keys,
                    static_cast<char*>(problem.workspace) + plain_workspace_bytes<Config>(problem));
}

/// Where the copy of a ragged bias lies.
template <class Config>
void* bias_memory(const CudaAttentionProblem& problem) {
  return static_cast<char*>(problem.workspace) + forward_workspace_bytes<Config>(problem) - bias_rows_bytes(problem);
}

template <class Config>
void prepare_forward(const CudaAttentionProblem& problem, cudaStream_t stream) {
  if (is_ragged(problem.bias)) make_bias_rows(problem, bias_memory<Config>(problem), stream);
  make_tile_walks(problem, Side::queries, walks_of<Config>(problem), stream);
}

template <class Config>
ForwardArguments forward_arguments(const CudaAttentionProblem& problem) {
  constexpr int kSharedBytes = sizeof(ForwardStorage<Config>);
  static_assert(kSharedBytes <= kMaxSharedBytes);
  allow_shared_memory(reinterpret_cast<const void*>(attention_forward_kernel<Config>), kSharedBytes);
  ForwardArguments args{};
  args.q = operand_map(problem, problem.q, false, problem.sizes.head_dim, Config::rows);
  args.k = operand_map(problem, problem.k, true, problem.sizes.head_dim, Config::keys);
  args.v = operand_map(problem, problem.v, true, problem.sizes.value_dim, Config::keys);
  args.out = operand_map(problem, problem.out, false, problem.sizes.value_dim, 16);
  args.problem = device_problem(problem);
  args.head_group = heads_together(problem.sizes, equal_costs(problem), int64_t{2} * (Config::D + Config::Dv));
  args.lse = problem.lse;
  args.sinks = problem.sinks;
  args.split.parts = 1;
  if constexpr (Config::scored) {
    args.scores.features = portable::score_features(problem);
    if (is_ragged(problem.bias)) args.scores.features.bias = bias_rows(problem, bias_memory<Config>(problem));
    args.scores.change =
        problem.soft_cap != 0 || problem.slopes != nullptr || problem.bias.data != nullptr || problem.table != nullptr;
    args.scores.wide_bias = problem.bias.data != nullptr;
    args.scores.set = feature_set(problem);
    args.scores.walks = walks_of<Config>(problem);
    if (args.scores.change) {
      args.problem.scale_log2 = 1.4426950408889634f;
      args.problem.scale_sign = 1;
    }
  }
  return args;
}

template <class Config>
void launch_forward_kernel(const ForwardArguments& args, int64_t items, bool beside_predecessor, cudaStream_t stream) {
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(std::min<int64_t>(int64_t{multiprocessors()} * Config::blocks, items));
  config.blockDim = Config::threads;
  config.dynamicSmemBytes = sizeof(ForwardStorage<Config>);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = beside_predecessor ? 1 : 0;
  check(cudaLaunchKernelEx(&config, attention_forward_kernel<Config>, args), "attention_forward");
}

template <class Config>
void launch_forward(const CudaAttentionProblem& problem, cudaStream_t stream) {
  const ForwardPlan plan = plan_forward<Config>(problem);
  if (plan.items == 0) return;
  ForwardArguments args = forward_arguments<Config>(problem);
  args.work = dense_work(problem, Side::queries, Config::rows, problem.workspace, stream);
  const ForwardWorkspace<Config> workspace(plan);
  auto* memory = static_cast<char*>(problem.workspace);
  args.split = {.whole = plan.parts > 1 ? static_cast<int>(plan.whole) : 0,
                .parts = plan.parts,
                .partial = reinterpret_cast<float4*>(memory + workspace.partial),
                .arrivals = reinterpret_cast<int*>(memory + workspace.arrivals)};
  if (plan.parts > 1)
    check(cudaMemsetAsync(args.split.arrivals, 0, workspace.arrival_bytes, stream), "attention_forward: arrivals");
  const int64_t pieces = plan.whole + (plan.items - plan.whole) * plan.parts;
  launch_forward_kernel<Config>(args, pieces, false, stream);
}

template <class Config>
std::function<void(const WorkList&, ListStart, cudaStream_t)> prepare_forward_list(const CudaAttentionProblem& problem) {
  const int64_t items = max_tiles(problem.sizes, Side::queries, Config::rows) * problem.sizes.heads;
  return [args = forward_arguments<Config>(problem), items](const WorkList& work, ListStart start, cudaStream_t stream) mutable {
    args.work = work;
    args.beside_other_list = start == ListStart::beside_other_list;
    launch_forward_kernel<Config>(args, items, start != ListStart::after_predecessor, stream);
  };
}

template <class Config>
ForwardInstance forward_instance(AttentionElement element, ForwardUse use) {
  return {element,
          Config::D,
          Config::Dv,
          use,
          Config::rows,
          Config::keys,
          launch_forward<Config>,
          forward_workspace_bytes<Config>,
          prepare_forward_list<Config>,
          prepare_forward<Config>};
}

}  // namespace deckle::kernels::cuda::attention
