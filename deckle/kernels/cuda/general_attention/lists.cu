// Tasks of a batch whose lengths the device alone knows: one block for the queries and one for the keys.
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/general_attention/kernels.h"
#include "deckle/kernels/cuda/general_attention/tile.cuh"

namespace deckle::kernels::cuda::general {
namespace {

/// Of one side.
struct Lists {
  const int64_t* given;  // [sequences + 1]
  int64_t* offsets;      // [sequences + 2]
  Task* tasks;
  int64_t count;  // of tasks that there is room for
};

__global__ void __launch_bounds__(kThreads) list(const Lists queries, const Lists keys, int sequences) {
  __shared__ int64_t ends[kThreads];
  const Lists& of = blockIdx.x == 0 ? queries : keys;
  const auto thread = static_cast<int>(threadIdx.x);
  int64_t before = 0;  // tasks of the sequences before these
  for (int first = 0; first < sequences; first += kThreads) {
    const int sequence = first + thread;
    const int64_t start = sequence < sequences ? of.given[sequence] : 0;
    const int64_t tasks = sequence < sequences ? (of.given[sequence + 1] - start + kTile - 1) / kTile : 0;
    if (sequence < sequences) of.offsets[sequence] = start;
    ends[thread] = tasks;
    __syncthreads();
    for (int step = 1; step < kThreads; step *= 2) {
      const int64_t other = thread >= step ? ends[thread - step] : 0;
      __syncthreads();
      ends[thread] += other;
      __syncthreads();
    }
    const int64_t to = before + ends[thread] - tasks;
    for (int64_t i = 0; i < tasks && to + i < of.count; ++i)
      of.tasks[to + i] = {static_cast<int32_t>(sequence), static_cast<int32_t>(i * kTile)};
    before += ends[kThreads - 1];
    __syncthreads();
  }
  for (int64_t i = before + thread; i < of.count; i += kThreads) of.tasks[i] = {static_cast<int32_t>(sequences), 0};
  if (thread < 2) of.offsets[sequences + thread] = of.given[sequences];
}

}  // namespace

void list_tasks(const Call& call, cudaStream_t stream) {
  const AttentionProblem& p = call.p;
  const auto of = [](const int64_t* given, const int64_t* offsets, const Task* tasks, int64_t count) {
    return Lists{given, const_cast<int64_t*>(offsets), const_cast<Task*>(tasks), count};
  };
  attention::launch_kernel("attention: tasks", list, dim3(2), kThreads, 0, stream,
                           of(p.device_q_offsets, p.q_offsets, call.row_tasks, call.row_task_count),
                           of(p.device_k_offsets, p.k_offsets, call.key_tasks, call.key_task_count),
                           static_cast<int>(p.sequences));
}

}  // namespace deckle::kernels::cuda::general
