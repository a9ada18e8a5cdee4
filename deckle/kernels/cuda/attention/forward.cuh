// out = softmax(mask(scale q kᵀ)) v and the log-sum-exp of each row, for one warp-specialised persistent block per SM.
//                                                   q [M, D], k [N, D], v [N, Dv], out [M, Dv] of each (sequence, head)
//
// FLOPs 2 M N (D + Dv) on the tensor cores; bytes 2 (M D + M Dv + N D + N Dv) if k and v come from memory once, so it is bound by the
// tensor cores beyond a few hundred keys. Beside them: one exp per score (16 a clock and SM: as long as the products at D = 64, half at 128).
//
// One producer thread draws work items and streams q, k, v through shared memory by TMA; each consumer warpgroup owns 64 query rows and never
// speaks to the others: they drift apart, and the exponentials of one hide under the products of the others.
//
// Schedules (template parameter):
//   together = false   s = q kᵀ, softmax, out += p v, one after the other: four warpgroups fill each other's gaps (D = 64)
//   together = true    q k(j+1)ᵀ is issued with p(j) v, so softmax(j+1) also runs under this warpgroup's own product (all others)
//
// Instances: bf16 and f16 x D/Dv of forward_config.cuh. The ladder, TFLOP/s on an H200 at S = 16,384, 2,048 wide, full mask, bf16
// (one run, benchmarks/results/attention_cuda_variants_1.json; the others under docs/hopper.md, with what was rejected):
//   D = 128   v1 2 warpgroups, 128 keys, together              624
//             v2 3 warpgroups, 128 keys, one after the other   646
//             v3 3 warpgroups, 80 keys, together               662   <- this file; cuDNN 604
//   D = 64    v1 3 warpgroups, 128 keys, one after the other   484
//             v2 4 warpgroups, 96 keys, one after the other    510   <- this file; cuDNN 455
//   D = 256   v1 2 warpgroups, 80 keys, together               642
//   (S = 4k)  v2 2 warpgroups, 64 keys, together               665   <- this file; cuDNN 651
//
// Relies on: 227 KB of shared memory and 64 Ki registers an SM; wgmma at full rate from shared memory for N > 64; named barriers of a
// warpgroup; tensor maps that clip at a sequence's end (tile/tensor_map.h).
#pragma once

#include "deckle/kernels/cuda/attention/problem.cuh"
#include "deckle/kernels/cuda/attention/softmax.cuh"
#include "deckle/kernels/cuda/attention/work_list.cuh"
#include "deckle/kernels/cuda/tile/matmul.cuh"
#include "deckle/kernels/cuda/tile/shared_tile.cuh"

namespace deckle::kernels::cuda::attention {

using arch::Element;

/// The items of a last, partly filled wave are cut into parts by keys, so that every SM has a share. Each part leaves its unnormalised
/// output, maxima and sums in memory; the warp that arrives last at its rows adds the parts up, always in the same order.
struct ForwardSplit {
  int whole;  // items before the first that is cut
  int parts;  // 1: none is cut
  float4* partial;
  int* arrivals;  // zeros; one per (cut item, warp)
};

struct ForwardArguments {
  CUtensorMap q, k, v, out;  // boxes of all query rows of a block, of one key tile, of one warp's 16 rows
  DeviceProblem problem;
  WorkList work;
  int head_group;  // heads that are worked on together, so that their k and v stay in L2
  ForwardSplit split;
  float* lse;      // null: not wanted
};

/// Tile shapes and schedule of one instance.
///
/// One warpgroup means short sequences: a lone producer warp, and several blocks per SM instead of several warpgroups per block.
template <Element element_, int D_, int Dv_, int warpgroups_, int keys_, int stages_, int query_buffers_, bool together_, int blocks_ = 1,
          bool register_q_ = false>
struct ForwardConfig {
  static constexpr Element element = element_;
  static constexpr int D = D_, Dv = Dv_;
  static constexpr int warpgroups = warpgroups_;        // consumers, 64 query rows each
  static constexpr int rows = 64 * warpgroups;          // query rows of a block
  static constexpr int keys = keys_;                    // key rows of a tile
  static constexpr int stages = stages_;                // k and v tiles in flight
  static constexpr int query_buffers = query_buffers_;  // 2: the next item's q arrives during this one
  static constexpr bool together = together_;
  static constexpr bool register_q = register_q_;  // q as the register operand of q kᵀ: it is not read again for every key tile
  static constexpr int blocks = blocks_;  // per SM
  static constexpr bool moves_registers = warpgroups > 1;
  static constexpr int threads = 128 * warpgroups + (moves_registers ? 128 : 32);
  static constexpr int producer_registers = warpgroups > 2 ? 32 : 40;
  static constexpr int consumer_registers = warpgroups == 4 ? 112 : warpgroups == 3 ? 160 : 232;
};

/// One block's share: the query rows [first_row, first_row + rows) of one (sequence, head). Written by the producer, read by consumers.
struct ForwardItem {
  int head;  // -1: no more work
  int first_row;
  int queries, keys;  // lengths of the sequence
  int row, batch;     // tensor map coordinates of the first query row
  int kv_head, key_row, key_batch;
  int tile_begin, tile_end;
  int cut, part;  // which cut item, -1: whole
  int64_t lse;  // index of the sequence's first row
};

template <class Config>
struct ForwardStorage {
  using QTile = tile::SharedTile<Config::rows, Config::D>;
  using KTile = tile::SharedTile<Config::keys, Config::D>;
  using VTile = tile::SharedTile<Config::keys, Config::Dv>;

  QTile q[Config::query_buffers];  // out leaves through it as well
  KTile k[Config::stages];
  VTile v[Config::stages];
  ForwardItem items[Config::query_buffers];
  arch::Barrier q_full[Config::query_buffers], q_empty[Config::query_buffers];
  arch::Barrier k_full[Config::stages], k_empty[Config::stages];
  arch::Barrier v_full[Config::stages], v_empty[Config::stages];
};

/// A position in a ring of buffers and the parity of its current round.
template <int size>
struct Ring {
  int slot = 0;
  uint32_t parity = 0;
  __device__ __forceinline__ void advance() {
    if (++slot == size) {
      slot = 0;
      parity ^= 1;
    }
  }
};

// Straight into shared memory: the producer has 32 registers.
template <class Config>
__device__ __forceinline__ void decode_item(const ForwardArguments& args, int index, ForwardItem& item) {
  const DeviceProblem& problem = args.problem;
  item.cut = -1;
  if (args.split.parts > 1 && index >= args.split.whole) {
    const int rest = index - args.split.whole;
    item.cut = rest / args.split.parts;
    item.part = rest - item.cut * args.split.parts;
    index = args.split.whole + item.cut;
  }
  int sequence, tile, head;
  if (args.work.items != nullptr) {
    const WorkItem item = args.work.items[index / problem.heads];
    sequence = item.sequence;
    tile = item.tile;
    head = index % problem.heads;
  } else {
    // Groups of (sequence, head) one after the other; within a group the last, under a causal mask longest, tiles first.
    const int group_items = args.head_group * args.work.dense_tiles;
    const int group = index / group_items, rest = index - group * group_items;
    const int heads_here = min(args.head_group, problem.batch * problem.heads - group * args.head_group);
    tile = args.work.dense_tiles - 1 - rest / heads_here;
    const int plane = group * args.head_group + rest % heads_here;
    sequence = plane / problem.heads;
    head = plane - sequence * problem.heads;
  }
  const int first_row = tile * Config::rows;
  item.head = head;
  item.kv_head = head / (problem.heads / problem.kv_heads);
  item.first_row = first_row;
  int key_length;
  {
    const Sequence keys = problem.keys[sequence];
    key_length = keys.length;
    item.keys = keys.length;
    item.key_row = keys.row_origin;
    item.key_batch = keys.batch;
  }
  const Sequence queries = problem.queries[sequence];
  item.queries = queries.length;
  item.row = queries.row_origin + first_row;
  item.batch = queries.batch;
  item.lse = lse_index(problem, sequence, queries.start, head);
  const int last_row = min(first_row + Config::rows, queries.length) - 1;
  const int begin = key_interval(problem.mask, first_row, queries.length, key_length).begin;
  const int end = key_interval(problem.mask, last_row, queries.length, key_length).end;
  item.tile_begin = begin / Config::keys;
  item.tile_end = end > begin ? (end + Config::keys - 1) / Config::keys : begin / Config::keys;
  if (item.cut >= 0) {  // the mask is full: the tiles are 0 .. tile_end
    const int tiles = item.tile_end, part = item.part;
    item.tile_begin = tiles * part / args.split.parts;
    item.tile_end = tiles * (part + 1) / args.split.parts;
  }
}

template <class Config>
__device__ __forceinline__ void produce(const ForwardArguments& args, ForwardStorage<Config>& shared) {
  using arch::CacheHint;
  using Storage = ForwardStorage<Config>;
  const DeviceProblem& problem = args.problem;
  arch::wait_for_dependencies();  // the work list
  int total = (args.work.items != nullptr ? args.work.header->count : args.work.dense_tiles * problem.batch) * problem.heads;
  total = args.split.whole + (total - args.split.whole) * args.split.parts;
  Ring<Config::query_buffers> q;
  Ring<Config::stages> kv;
  for (int index = blockIdx.x;;) {
    arch::wait(shared.q_empty[q.slot], q.parity ^ 1);
    ForwardItem& slot = shared.items[q.slot];
    if (index >= total) {
      slot.head = -1;
      arch::arrive(shared.q_full[q.slot]);
      return;
    }
    decode_item<Config>(args, index, slot);
    const int next = args.work.header != nullptr ? atomicAdd(&args.work.header->next, 1) + gridDim.x : index + gridDim.x;
    arch::expect_bytes(shared.q_full[q.slot], Storage::QTile::bytes);
    tile::load_tile(shared.q[q.slot], args.q, shared.q_full[q.slot], slot.row, slot.head, slot.batch, CacheHint::evict_first);
    q.advance();
    const int first = slot.key_row + slot.tile_begin * Config::keys, kv_head = slot.kv_head, batch = slot.key_batch;
    for (int row = slot.key_row + (slot.tile_end - 1) * Config::keys; row >= first; row -= Config::keys) {
      arch::wait(shared.k_empty[kv.slot], kv.parity ^ 1);
      arch::expect_bytes(shared.k_full[kv.slot], Storage::KTile::bytes);
      tile::load_tile(shared.k[kv.slot], args.k, shared.k_full[kv.slot], row, kv_head, batch, CacheHint::evict_last);
      arch::wait(shared.v_empty[kv.slot], kv.parity ^ 1);
      arch::expect_bytes(shared.v_full[kv.slot], Storage::VTile::bytes);
      tile::load_tile(shared.v[kv.slot], args.v, shared.v_full[kv.slot], row, kv_head, batch, CacheHint::evict_last);
      kv.advance();
    }
    index = next;
  }
}

/// A warpgroup's key tiles: [begin, end) are visited, those outside [inner_begin, inner_end) hold a mask edge.
struct TileRange {
  int begin, end, inner_begin, inner_end;
};

template <class Config>
__device__ __forceinline__ TileRange tile_range(const DeviceProblem& problem, const ForwardItem& item, int warpgroup) {
  const int first = item.first_row + 64 * warpgroup, last = min(first + 64, item.queries) - 1;
  if (arch::uniform(first > last)) return {arch::uniform(item.tile_begin), arch::uniform(item.tile_begin), 0, 0};
  const Interval top = key_interval(problem.mask, first, item.queries, item.keys);
  const Interval bottom = key_interval(problem.mask, last, item.queries, item.keys);
  TileRange range;
  range.begin = top.begin / Config::keys;
  range.end = bottom.end > top.begin ? (bottom.end + Config::keys - 1) / Config::keys : range.begin;
  range.inner_begin = (bottom.begin + Config::keys - 1) / Config::keys;
  range.inner_end = top.end > 0 ? top.end / Config::keys : 0;
  if (problem.scale_sign < 0) range.inner_end = range.inner_begin = 0;  // the masked path also turns the sign
  range.begin = max(range.begin, item.tile_begin);
  range.end = min(range.end, item.tile_end);
  return {arch::uniform(range.begin), arch::uniform(range.end), arch::uniform(range.inner_begin), arch::uniform(range.inner_end)};
}

/// Releases a tile this warp no longer reads.
__device__ __forceinline__ void release(arch::Barrier& barrier) {
  arch::arrive_if(barrier, threadIdx.x % 32 == 0);
}

/// Leaves this warp's share of a cut item in memory. If it is the last to arrive, replaces it by the sum of all parts and returns true.
template <class Config>
__device__ __forceinline__ bool combine_parts(const ForwardArguments& args, const ForwardItem& item, int warpgroup,
                                              float (&out)[Config::Dv / 2], RowState& state) {
  constexpr int kVectors = Config::Dv / 8;  // of four floats a thread, and one more for the row states
  const int thread = threadIdx.x % 128, parts = args.split.parts;
  const auto slot = [&](int part) {
    return args.split.partial + ((int64_t{item.cut} * parts + part) * Config::warpgroups + warpgroup) * ((kVectors + 1) * 128) + thread;
  };
  float4* mine = slot(item.part);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) __stcg(mine + i * 128, make_float4(out[4 * i], out[4 * i + 1], out[4 * i + 2], out[4 * i + 3]));
  __stcg(mine + kVectors * 128, make_float4(state.maximum[0], state.maximum[1], state.sum[0], state.sum[1]));
  __threadfence();
  __syncwarp();
  int arrived = 0;
  if (thread % 32 == 0) arrived = atomicAdd(args.split.arrivals + item.cut * (4 * Config::warpgroups) + 4 * warpgroup + thread / 32, 1);
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

template <class Config>
__device__ __forceinline__ void store_output(const ForwardArguments& args, ForwardStorage<Config>& shared, int slot, const ForwardItem& item,
                                             int warpgroup, float (&out)[Config::Dv / 2], RowState& state) {
  const int thread = threadIdx.x % 128, warp = thread / 32;
  const auto& buffer = shared.q[slot];
  arch::named_sync<128>(1 + warpgroup);  // all four warps are done with q
  if (arch::uniform(item.cut) >= 0 && !combine_parts<Config>(args, item, warpgroup, out, state)) {
    release(shared.q_empty[slot]);
    return;
  }
  float inverse[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float sum = quad_sum(state.sum[h]);
    inverse[h] = sum > 0.0f || sum != sum ? 1.0f / sum : 0.0f;  // no key: zeros; NaN stays NaN
    const int row = item.first_row + 64 * warpgroup + tile::accumulator_row(thread) + 8 * h;
    if (args.lse != nullptr && thread % 4 == 0 && row < item.queries) {
      const float shift = state.maximum[h] == kMinusInfinity ? 0.0f : state.maximum[h] * args.problem.scale_log2;
      args.lse[item.lse + row] = (shift + arch::log2(sum)) * 0.6931471805599453f;
    }
  }
  scale_rows(out, inverse);
  tile::store_accumulators<Config::element, Config::Dv>(buffer.address(), Config::rows, 64 * warpgroup, thread, out);
  arch::fence_shared_for_async();
  __syncwarp();
  if (thread % 32 == 0) {
#pragma unroll
    for (int panel = 0; panel < tile::panels(Config::Dv); ++panel) {
      const int local = 64 * warpgroup + 16 * warp;
      arch::store_box(args.out, buffer.address() + panel * buffer.panel_bytes + local * tile::kPanelRowBytes, panel * tile::kPanelColumns,
                      item.row + local, item.head, item.batch);
    }
    arch::commit_stores();
    arch::wait_stores_read();
    arch::arrive(shared.q_empty[slot]);
  }
  __syncwarp();
}

template <class Config>
__device__ __forceinline__ void mask_tile(const DeviceProblem& problem, const ForwardItem& item, int warpgroup, int j,
                                          float (&scores)[Config::keys / 2]) {
  const int thread = threadIdx.x % 128;
  const int row = item.first_row + 64 * warpgroup + tile::accumulator_row(thread);
  const Interval rows[2] = {key_interval(problem.mask, row, item.queries, item.keys),
                            key_interval(problem.mask, row + 8, item.queries, item.keys)};
  if (problem.scale_sign < 0) {
#pragma unroll
    for (int i = 0; i < Config::keys / 2; ++i) scores[i] = -scores[i];
  }
  mask_scores<Config::keys>(scores, rows, j * Config::keys, thread);
}

template <class Config>
__device__ __forceinline__ void consume(const ForwardArguments& args, ForwardStorage<Config>& shared, int warpgroup) {
  constexpr int N = Config::keys, D = Config::D, Dv = Config::Dv;
  constexpr Element element = Config::element;
  const DeviceProblem& problem = args.problem;
  const float c = problem.scale_log2;
  Ring<Config::query_buffers> q;
  Ring<Config::stages> kv;
  for (;;) {
    arch::wait(shared.q_full[q.slot], q.parity);
    const ForwardItem& item = shared.items[q.slot];
    if (arch::uniform(item.head) < 0) return;
    const tile::Operand q_rows = tile::operand(shared.q[q.slot].address(), Config::rows, 64 * warpgroup);
    uint32_t q_registers[Config::register_q ? D / 4 : 1];
    if constexpr (Config::register_q) {
      tile::load_operand<D>(q_registers, shared.q[q.slot].address(), Config::rows, 64 * warpgroup, threadIdx.x);
    }
    const auto multiply_q = [&](float(&scores)[N / 2]) {
      const tile::Operand k_rows = tile::operand(shared.k[kv.slot].address(), N);
      if constexpr (Config::register_q) {
        arch::pin(q_registers);
        tile::multiply_transposed<element, N, D, N, true>(scores, q_registers, k_rows);
      } else {
        tile::multiply_transposed<element, N, D, Config::rows, N, true>(scores, q_rows, k_rows);
      }
    };
    const TileRange range = tile_range<Config>(problem, item, warpgroup);
    float out[Dv / 2];
#pragma unroll
    for (int i = 0; i < Dv / 2; ++i) out[i] = 0.0f;
    RowState state;
    state.reset();

    const auto skip = [&] {  // a tile of other warpgroups
      arch::wait(shared.k_full[kv.slot], kv.parity);
      release(shared.k_empty[kv.slot]);
      arch::wait(shared.v_full[kv.slot], kv.parity);
      release(shared.v_empty[kv.slot]);
      kv.advance();
    };
    const auto edge = [&](int j) { return j < range.inner_begin || j >= range.inner_end; };
    int j = arch::uniform(item.tile_end) - 1;
    const int last = arch::uniform(item.tile_begin);
#pragma unroll 1
    for (; j >= range.end && j >= last; --j) skip();

    if constexpr (!Config::together) {
#pragma unroll 1
      for (; j >= range.begin; --j) {
        float scores[N / 2], rescale[2];
        uint32_t p[N / 4];
        arch::wait(shared.k_full[kv.slot], kv.parity);
        arch::wgmma_fence();
        multiply_q(scores);
        arch::wgmma_commit();
        arch::wgmma_wait<0>();
        arch::pin(scores);
        release(shared.k_empty[kv.slot]);

        if (edge(j)) mask_tile<Config>(problem, item, warpgroup, j, scores);
        if (update_maximum<N>(scores, state, rescale, c)) scale_rows(out, rescale);
        exponentiate<N>(scores, state, c);
        tile::pack_operand<element>(p, scores);

        arch::wait(shared.v_full[kv.slot], kv.parity);
        arch::pin(out);
        arch::pin(p);
        arch::wgmma_fence();
        tile::multiply<element, Dv, N, false>(out, p, tile::operand(shared.v[kv.slot].address(), N));
        arch::wgmma_commit();
        arch::wgmma_wait<0>();
        arch::pin(out);
        arch::pin(p);
        release(shared.v_empty[kv.slot]);
        kv.advance();
      }
    } else if (j >= range.begin) {
      uint32_t p[N / 4];
      {
        float scores[N / 2], rescale[2];
        arch::wait(shared.k_full[kv.slot], kv.parity);
        arch::wgmma_fence();
        multiply_q(scores);
        arch::wgmma_commit();
        arch::wgmma_wait<0>();
        arch::pin(scores);
        release(shared.k_empty[kv.slot]);
        if (edge(j)) mask_tile<Config>(problem, item, warpgroup, j, scores);
        update_maximum<N>(scores, state, rescale, c);
        exponentiate<N>(scores, state, c);
        tile::pack_operand<element>(p, scores);
      }
      Ring<Config::stages> v = kv;  // one tile behind k
      kv.advance();
#pragma unroll 1
      for (--j; j >= range.begin; --j) {
        float scores[N / 2], rescale[2];
        arch::wait(shared.k_full[kv.slot], kv.parity);
        arch::pin(out);
        arch::pin(p);
        arch::wgmma_fence();
        multiply_q(scores);
        arch::wgmma_commit();
        arch::wait(shared.v_full[v.slot], v.parity);
        arch::wgmma_fence();  // the wait is a loop; without a fence behind it ptxas adds one
        tile::multiply<element, Dv, N, false>(out, p, tile::operand(shared.v[v.slot].address(), N));
        arch::wgmma_commit();
        arch::wgmma_wait<1>();
        arch::pin(scores);
        release(shared.k_empty[kv.slot]);

        if (edge(j)) mask_tile<Config>(problem, item, warpgroup, j, scores);
        const bool rescales = update_maximum<N>(scores, state, rescale, c);
        exponentiate<N>(scores, state, c);

        arch::wgmma_wait<0>();
        arch::pin(out);
        arch::pin(p);
        release(shared.v_empty[v.slot]);
        if (rescales) scale_rows(out, rescale);
        tile::pack_operand<element>(p, scores);
        v = kv;
        kv.advance();
      }
      arch::wait(shared.v_full[v.slot], v.parity);
      arch::pin(out);
      arch::pin(p);
      arch::wgmma_fence();
      tile::multiply<element, Dv, N, false>(out, p, tile::operand(shared.v[v.slot].address(), N));
      arch::wgmma_commit();
      arch::wgmma_wait<0>();
      arch::pin(out);
      arch::pin(p);
      release(shared.v_empty[v.slot]);
    }
#pragma unroll 1
    for (; j >= last; --j) skip();

    store_output<Config>(args, shared, q.slot, item, warpgroup, out, state);
    q.advance();
  }
}

template <class Config>
__global__ void __launch_bounds__(Config::threads, Config::blocks) attention_forward_kernel(const __grid_constant__ ForwardArguments args) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<ForwardStorage<Config>*>(memory);
  const int warpgroup = arch::warpgroup_index();
  if (threadIdx.x == 0) {
    for (int i = 0; i < Config::query_buffers; ++i) {
      arch::init_barrier(shared.q_full[i], 1);
      arch::init_barrier(shared.q_empty[i], 4 * Config::warpgroups);
    }
    for (int i = 0; i < Config::stages; ++i) {
      arch::init_barrier(shared.k_full[i], 1);
      arch::init_barrier(shared.v_full[i], 1);
      arch::init_barrier(shared.k_empty[i], 4 * Config::warpgroups);
      arch::init_barrier(shared.v_empty[i], 4 * Config::warpgroups);
    }
    arch::fence_barrier_init();
  }
  __syncthreads();
  if (warpgroup == Config::warpgroups) {
    if constexpr (Config::moves_registers) arch::shrink_registers<Config::producer_registers>();
    if (threadIdx.x % 128 == 0) produce<Config>(args, shared);
  } else {
    if constexpr (Config::moves_registers) arch::grow_registers<Config::consumer_registers>();
    consume<Config>(args, shared, warpgroup);
  }
}

}  // namespace deckle::kernels::cuda::attention
