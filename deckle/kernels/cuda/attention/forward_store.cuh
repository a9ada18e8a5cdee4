// The end of a forward item: parts of cut items are combined, out and lse leave.
#pragma once

#include "deckle/kernels/cuda/attention/forward_work.cuh"

namespace deckle::kernels::cuda::attention {

/// Leaves this warp's share of a cut item in memory. If it is the last to arrive, replaces it by the sum of all parts and returns
/// true.
template <class Config>
__device__ __forceinline__ bool combine_parts(const ForwardArguments& args, const ForwardItem& item, int warpgroup,
                                              float (&out)[Config::Dv / 2], RowState& state) {
  constexpr int kVectors = Config::Dv / 8;  // of four floats a thread, and one more for the row states
  const int thread = threadIdx.x % 128, parts = args.split.parts;
  const auto slot = [&](int part) {
    return args.split.partial + ((int64_t{item.cut} * parts + part) * Config::warpgroups + warpgroup) * ((kVectors + 1) * 128) +
           thread;
  };
  float4* mine = slot(item.part);
#pragma unroll
  for (int i = 0; i < kVectors; ++i)
    __stcg(mine + i * 128, make_float4(out[4 * i], out[4 * i + 1], out[4 * i + 2], out[4 * i + 3]));
  __stcg(mine + kVectors * 128, make_float4(state.maximum[0], state.maximum[1], state.sum[0], state.sum[1]));
  __threadfence();
  __syncwarp();
  int arrived = 0;
  if (thread % 32 == 0)
    arrived = atomicAdd(args.split.arrivals + item.cut * (4 * Config::warpgroups) + 4 * warpgroup + thread / 32, 1);
  if (arch::uniform(arrived) + 1 < parts) return false;
  __threadfence();

  RowState total;
  total.reset();
#pragma unroll 1
  for (int part = 0; part < parts; ++part) {
    const float4 rows = __ldcg(slot(part) + kVectors * 128);
    total.maximum[0] = fmaxf(total.maximum[0], rows.x);
    total.maximum[1] = fmaxf(total.maximum[1], rows.y);
  }
#pragma unroll
  for (float& x : out) x = 0.0f;
#pragma unroll 1
  for (int part = 0; part < parts; ++part) {
    const float4 rows = __ldcg(slot(part) + kVectors * 128);
    const float c = args.problem.scale_log2;
    const float factor[2] = {rows.x == kMinusInfinity ? 0.0f : arch::exp2((rows.x - total.maximum[0]) * c),
                             rows.y == kMinusInfinity ? 0.0f : arch::exp2((rows.y - total.maximum[1]) * c)};
    total.sum[0] = fmaf(factor[0], rows.z, total.sum[0]);
    total.sum[1] = fmaf(factor[1], rows.w, total.sum[1]);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
      const float4 v = __ldcg(slot(part) + i * 128);
      out[4 * i] = fmaf(factor[0], v.x, out[4 * i]);
      out[4 * i + 1] = fmaf(factor[0], v.y, out[4 * i + 1]);
      out[4 * i + 2] = fmaf(factor[1], v.z, out[4 * i + 2]);
      out[4 * i + 3] = fmaf(factor[1], v.w, out[4 * i + 3]);
    }
  }
  state = total;
  return true;
}

/// Writes out and lse. Out leaves through the q buffer, which all four warps are done with, and which is then given back.
template <class Config>
__device__ __forceinline__ void store_output(const ForwardArguments& args, ForwardStorage<Config>& shared, int slot,
                                             const ForwardItem& item, int warpgroup, float (&out)[Config::Dv / 2],
                                             RowState& state) {
  const int thread = threadIdx.x % 128, warp = thread / 32;
  const auto& buffer = shared.q[slot];
  if (arch::uniform(item.cut) >= 0 && !combine_parts<Config>(args, item, warpgroup, out, state)) {
    arch::release_tile(shared.q_empty[slot]);
    return;
  }
  float factor[2];
  const float* sink = args.sinks != nullptr ? args.sinks + item.head : nullptr;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const RowEnd end = end_row(state.maximum[h], quad_sum(state.sum[h]), args.problem.scale_log2, sink);
    factor[h] = Config::scored ? end.factor * args.scores.features.keep_factor : end.factor;
    const int row = item.first_row + 64 * warpgroup + tile::accumulator_row(thread) + 8 * h;
    if (args.lse != nullptr && thread % 4 == 0 && row < item.queries)
      args.lse[item.lse + int64_t{row} * args.problem.heads] = end.lse;
  }
  scale_rows(out, factor);
  tile::store_accumulators<Config::element, Config::Dv>(buffer.address(), Config::rows, 64 * warpgroup, thread, out);
  arch::fence_shared_for_async();
  __syncwarp();
  if (thread % 32 == 0) {
    const int local = 64 * warpgroup + 16 * warp;
    tile::store_rows<Config::Dv>(buffer, local, args.out, item.row + local, item.head, item.batch);
    arch::commit_stores();
    arch::wait_stores_read();
    arch::arrive(shared.q_empty[slot]);
  }
  __syncwarp();
}

}  // namespace deckle::kernels::cuda::attention
