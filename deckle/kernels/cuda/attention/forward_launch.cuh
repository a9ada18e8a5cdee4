// Host side of one forward instance.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>

#include "deckle/kernels/cuda/attention/forward.cuh"
#include "deckle/kernels/cuda/attention/instance.h"
#include "deckle/kernels/cuda/attention/launch.h"

namespace deckle::kernels::cuda::attention {

template <class Config>
int64_t forward_instance_workspace(const AttentionProblem& problem) {
  return work_list_bytes(problem.sizes, Side::queries, Config::rows);
}

template <class Config>
void launch_forward(const AttentionProblem& problem, cudaStream_t stream) {
  const AttentionSizes& sizes = problem.sizes;
  const int64_t most_items = max_tiles(sizes, Side::queries, Config::rows) * sizes.heads;
  if (most_items == 0) return;
  constexpr int kSharedBytes = sizeof(ForwardStorage<Config>);
  static_assert(kSharedBytes <= kMaxSharedBytes);
  allow_shared_memory(reinterpret_cast<const void*>(attention_forward_kernel<Config>), kSharedBytes);

  ForwardArguments args;
  args.q = operand_map(problem.q, sizes, false, Config::D, Config::rows);
  args.k = operand_map(problem.k, sizes, true, Config::D, Config::keys);
  args.v = operand_map(problem.v, sizes, true, Config::Dv, Config::keys);
  args.out = operand_map(problem.out, sizes, false, Config::Dv, 16);
  args.problem = device_problem(problem);
  args.work = make_work_list(problem, Side::queries, Config::rows, problem.workspace, stream);
  args.head_group = heads_together(sizes, args.work.header == nullptr, int64_t{2} * (Config::D + Config::Dv));
  args.lse = problem.lse;
  const int blocks = static_cast<int>(std::min<int64_t>(int64_t{multiprocessors()} * Config::blocks, most_items));
  // Behind a work list, blocks start while it is being made and wait for it themselves.
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = Config::threads;
  config.dynamicSmemBytes = kSharedBytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = sizes.ragged() ? 1 : 0;
  cudaLaunchKernelEx(&config, attention_forward_kernel<Config>, args);
  check_launch("attention_forward");
}

template <class Config>
ForwardInstance forward_instance(AttentionElement element, ForwardUse use) {
  return {element, Config::D, Config::Dv, use, launch_forward<Config>, forward_instance_workspace<Config>};
}

}  // namespace deckle::kernels::cuda::attention
