// What the kernels that own keys have in common. A block owns N keys of one kv head and walks, for each query head of its group,
// the tiles of M queries that attend them:
//
//   S^T = K Q^T      P^T = 2^(scale log2e S^T - lse2)      dP^T = V dO^T      dS^T = P^T (dP^T - delta)
//
// (with a bias P^T = e^(scale S^T + bias - lse), see weight_of)
// for 64 keys a warpgroup. Here are the shared memory and its barriers, the loader, the mask, these four steps, and how dK and dV
// leave; the order in which a warpgroup issues its products is each kernel's own.
#pragma once

#include <climits>

#include "deckle/kernels/cuda/attention/backward_common.cuh"
#include "deckle/kernels/cuda/attention/backward_scores.cuh"
#include "deckle/kernels/cuda/tile/matmul.cuh"
#include "deckle/kernels/cuda/tile/product.cuh"

namespace deckle::kernels::cuda::attention {

/// Whether a kernel has a tile through which dS^T leaves.
template <class Shape>
inline constexpr bool kLeavesScores = requires {
  requires Shape::leaves_scores;
};

/// The shared memory of a block, and who waits for what.
template <int N, int M, int D, int Dv, int stages, int k_buffers, int v_buffers>
struct KeyTiles {
  tile::SharedTile<N, D> k[k_buffers];
  tile::SharedTile<N, Dv> v[v_buffers];
  tile::SharedTile<M, D> q[stages];
  tile::SharedTile<M, Dv> grad_out[stages];
  alignas(16) float lse2[stages][M];
  alignas(16) float delta[stages][M];
  int first_query[stages];  // row of the sequence, with the q tile
  int query_head[stages];   // where scores have features, or dS leaves
  int partial[stages];      // there, too: a mask of ranges or of bytes forbids something
  WorkQueue queue;
  arch::Barrier k_full[k_buffers], k_empty[k_buffers], v_full[v_buffers], v_empty[v_buffers];
  arch::Barrier q_full[stages], q_empty[stages];        // q tile and lse2
  arch::Barrier grad_full[stages], grad_empty[stages];  // dO tile and delta
  arch::Barrier bias_full[stages];                      // all_gradients with a bias

  /// One thread. `warps` consume; `others` read the work queue besides, not counting the loader.
  __device__ __forceinline__ void init_barriers(int warps, int others) {
    init_queue(queue, warps + others);
    for (int i = 0; i < k_buffers; ++i) {
      arch::init_barrier(k_full[i], 1);
      arch::init_barrier(k_empty[i], warps);
    }
    for (int i = 0; i < v_buffers; ++i) {
      arch::init_barrier(v_full[i], 1);
      arch::init_barrier(v_empty[i], warps);
    }
    for (int i = 0; i < stages; ++i) {
      arch::init_barrier(q_full[i], 1);
      arch::init_barrier(grad_full[i], 1);
      arch::init_barrier(q_empty[i], warps);
      arch::init_barrier(grad_empty[i], warps);
    }
  }
};

/// Zeroes P^T outside the band and of keys that do not exist. For the 64 keys from row `row` of the work's tile of N on. Holds
/// next to nothing in registers: what a tile that needs it takes is read again from shared memory.
template <int N, int M>
class BandMask {
 public:
  __device__ __forceinline__ BandMask(const Work& work, int row) : work_(work), row_(row) {
    const SequencePair& s = work.sequence;
    const int key = work.tile * N + row;
    unmasked_first_ = key + 64 > s.key_rows ? INT_MAX : key + 63 - s.band.high;
    unmasked_last_ = key - s.band.low - (M - 1);
  }

  /// `query`: row of the sequence of the tile's first query.
  __device__ __forceinline__ void apply(float (&p)[M / 2], int query) const {
    if (query >= unmasked_first_ && query <= unmasked_last_) return;
    const SequencePair& s = work_.sequence;
    const int thread = threadIdx.x & 127, key = work_.tile * N + row_ + tile::accumulator_row(thread);
    const auto width = static_cast<uint32_t>(s.band.high) - static_cast<uint32_t>(s.band.low) + 1;
    const uint32_t widths[2] = {key < s.key_rows ? width : 0, key + 8 < s.key_rows ? width : 0};
    // query - (key - high) of accumulator 0; inside the band it lies in [0, width).
    const uint32_t distance = query + tile::accumulator_column(thread) + s.band.high - key;
#pragma unroll
    for (int i = 0; i < M / 2; ++i) {
      const uint32_t column = 8 * (i / 4) + i % 2, half = (i / 2) % 2;
      p[i] = distance + column - 8 * half < widths[half] ? p[i] : 0.0f;
    }
  }

 private:
  const Work& work_;
  int row_;
  int unmasked_first_, unmasked_last_;
};

/// One warpgroup's view of a work: the operands in shared memory and the steps that all schedules are made of. Products are
/// issued, never waited for.
template <class Shape>
class KeySteps {
  static constexpr Element element = Shape::element;
  static constexpr int M = Shape::M, N = Shape::N, D = Shape::D, Dv = Shape::Dv;
  using Shared = typename Shape::Shared;
  static constexpr bool kOneAddress = D == Dv && Shape::k_buffers == Shape::v_buffers;
  using Position = Ring<Shape::stages>;

 public:
  /// `row`: the warpgroup's first key within the tile.
  __device__ __forceinline__ KeySteps(Shared& shared, const BackwardArguments& args, const Work& work, uint32_t k_slot,
                                      uint32_t v_slot, int row)
      : shared_(shared),
        scale_(kBiased<Shape> ? args.scale : args.scale_log2),
        statistics_(arch::shared_address(shared.lse2[0]) + 4 * tile::accumulator_column(threadIdx.x & 127)),
        q_(tile::operand(shared.q[0].address(), M).low),
        k_(tile::operand(shared.k[0].address(), N, row).low + k_slot * (sizeof(shared.k[0]) / 16)),
        v_(kOneAddress ? 0 : tile::operand(shared.v[0].address(), N, row).low + v_slot * (sizeof(shared.v[0]) / 16)),
        mask_(work, row) {}

  __device__ __forceinline__ auto issue_scores(float (&score)[M / 2], const Position& at) {
    arch::wait(shared_.q_full[at.slot], at.parity);
    tile::begin();
    tile::multiply_transposed<element, M, D, N, M, true>(score, {k_}, q_at(at));
    return tile::commit(score);
  }

  __device__ __forceinline__ auto issue_dp(float (&dp)[M / 2], const Position& at) {
    // One register for both where k and v have the same shape and as many buffers.
    const uint32_t v = kOneAddress ? k_ + static_cast<uint32_t>(sizeof(shared_.k) / 16) : v_;
    arch::wait(shared_.grad_full[at.slot], at.parity);
    tile::begin();
    tile::multiply_transposed<element, M, Dv, N, M, true>(dp, {v}, grad_at(at));
    return tile::commit(dp);
  }

  /// P^T in place of S^T: column pairs of the accumulator are queries.
  __device__ __forceinline__ void probabilities(float (&s)[M / 2], const Position& at) {
    const auto weight = [&](float score, float lse) {
      if constexpr (kBiased<Shape>) {
        return portable::weight_of(score, lse);  // of add_bias
      } else {
        return arch::exp2(fmaf(score, scale_, -lse));
      }
    };
    const uint32_t address = statistics_ + at.slot * (M * 4);
#pragma unroll
    for (int k = 0; k < M / 8; ++k) {
      const float2 lse = arch::load_shared_pair(address + 32 * k);
      s[4 * k + 0] = weight(s[4 * k + 0], lse.x);
      s[4 * k + 1] = weight(s[4 * k + 1], lse.y);
      s[4 * k + 2] = weight(s[4 * k + 2], lse.x);
      s[4 * k + 3] = weight(s[4 * k + 3], lse.y);
    }
    mask_.apply(s, shared_.first_query[at.slot]);
  }

  /// S^T in natural units with the bias, whose tile lies, transposed, at `bias`; see transposed_address.
  __device__ __forceinline__ void add_bias(float (&s)[M / 2], uint32_t bias) const {
#pragma unroll
    for (int block = 0; block < M / 16; ++block) {
      uint32_t w[4];
      arch::load_matrices_transposed(w, bias + block * (16 * tile::kPanelRowBytes));
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 pair = arch::unpack<element>(w[i]);
        float* to = s + 8 * block + 2 * i;
        to[0] = fmaf(to[0], scale_, pair.x);
        to[1] = fmaf(to[1], scale_, pair.y);
      }
    }
  }

  /// dS^T in place of dP^T. `p(k)` gives P^T of accumulators 4k .. 4k+3.
  template <class Probabilities>
  __device__ __forceinline__ void score_gradients(float (&dp)[M / 2], Probabilities p, const Position& at) {
    const uint32_t address = statistics_ + static_cast<uint32_t>(sizeof(shared_.lse2)) + at.slot * (M * 4);
#pragma unroll
    for (int k = 0; k < M / 8; ++k) {
      const float2 delta = arch::load_shared_pair(address + 32 * k);
      const float4 of_k = p(k);
      dp[4 * k + 0] = of_k.x * (dp[4 * k + 0] - delta.x);
      dp[4 * k + 1] = of_k.y * (dp[4 * k + 1] - delta.y);
      dp[4 * k + 2] = of_k.z * (dp[4 * k + 2] - delta.x);
      dp[4 * k + 3] = of_k.w * (dp[4 * k + 3] - delta.y);
    }
  }

  /// The same with P^T in registers, both packed.
  __device__ __forceinline__ void score_gradients(uint32_t (&ds)[M / 4], uint32_t (&packed)[M / 4], const float (&p)[M / 2],
                                                  float (&dp)[M / 2], const Position& at) {
    score_gradients(dp, p, at);
    tile::pack_operand<element>(ds, dp);
    tile::pack_operand<element>(packed, p);
  }

  /// dS^T in place of dP^T, with P^T in registers.
  __device__ __forceinline__ void score_gradients(float (&dp)[M / 2], const float (&p)[M / 2], const Position& at) {
    score_gradients(
        dp, [&](int k) { return make_float4(p[4 * k], p[4 * k + 1], p[4 * k + 2], p[4 * k + 3]); }, at);
  }

  /// The same where only the weights of `kept` have a part in the outputs.
  __device__ __forceinline__ void score_gradients(float (&dp)[M / 2], const float (&p)[M / 2], const Position& at,
                                                  portable::KeptFlags<M>& kept, float keep_factor) {
    const uint32_t address = statistics_ + static_cast<uint32_t>(sizeof(shared_.lse2)) + at.slot * (M * 4);
    const auto gradient = [&](float& dp, float p, uint32_t mask, float delta) {
      dp = p * fmaf(__uint_as_float(__float_as_uint(dp) & mask), keep_factor, -delta);
    };
#pragma unroll
    for (int m = 0; m < M / 16; ++m) {
#pragma unroll
      for (uint32_t& word : kept.word) arch::forget(word);
      const uint32_t even = kept.at(m, 0), odd = kept.at(m, 1);
#pragma unroll
      for (int eight = 0; eight < 2; ++eight) {
        const float2 delta = arch::load_shared_pair(address + 32 * (2 * m + eight));
        float* d = dp + 8 * m + 4 * eight;
        const float* of = p + 8 * m + 4 * eight;
        gradient(d[0], of[0], eight == 0 ? arch::permute_bytes<0x8888>(even, 0) : arch::permute_bytes<0x9999>(even, 0), delta.x);
        gradient(d[1], of[1], eight == 0 ? arch::permute_bytes<0x8888>(odd, 0) : arch::permute_bytes<0x9999>(odd, 0), delta.y);
        gradient(d[2], of[2], eight == 0 ? arch::permute_bytes<0xaaaa>(even, 0) : arch::permute_bytes<0xbbbb>(even, 0), delta.x);
        gradient(d[3], of[3], eight == 0 ? arch::permute_bytes<0xaaaa>(odd, 0) : arch::permute_bytes<0xbbbb>(odd, 0), delta.y);
      }
    }
  }

  __device__ __forceinline__ tile::Operand q_at(const Position& at) const {
    return {q_ + at.slot * static_cast<uint32_t>(sizeof(shared_.q[0]) / 16)};
  }
  __device__ __forceinline__ tile::Operand grad_at(const Position& at) const {
    return {q_ + static_cast<uint32_t>(sizeof(shared_.q) / 16) +
            at.slot * static_cast<uint32_t>(sizeof(shared_.grad_out[0]) / 16)};
  }

  /// At the top of each iteration: keeps the compiler from holding the descriptors of all steps in registers.
  __device__ __forceinline__ void forget_operands() {
    arch::forget(k_);
    arch::forget(q_);
  }

 private:
  Shared& shared_;
  float scale_;          // of S^T; without a bias times log2 e
  uint32_t statistics_;  // lse2 of this thread's first column; delta lies behind all of lse2
  uint32_t q_, k_, v_;   // operands of buffer 0; of this work's buffer
  BandMask<N, M> mask_;
};

/// The buffer of k or v that the work in a slot of the queue uses: they take turns alike.
template <int buffers>
__device__ __forceinline__ Ring<buffers> buffer_of_work(uint32_t work_slot) {
  static_assert(kWorkSlots == 4 && (buffers == 1 || buffers == 2));
  if constexpr (buffers == 1) return {0, work_slot & 1};
  return {work_slot & 1, work_slot >> 1};
}

/// The loader, one thread: for each work its keys and its queries as buffers become free, from the last query tile to the first,
/// unless the work rises.
template <class Shape>
__device__ __forceinline__ void load_key_work(typename Shape::Shared& shared, const BackwardArguments& args) {
  constexpr int M = Shape::M;
  // The first queries arrive while the work before still uses the only buffer of v.
  constexpr bool kLateValues = Shape::v_buffers < Shape::k_buffers;
  Ring<kWorkSlots> slot;
  Ring<Shape::stages> ring;
  for (;; slot.advance()) {
    arch::wait(shared.queue.ready[slot.slot], slot.parity);
    const Work& work = shared.queue.work[slot.slot];
    if (work.tile < 0) return;
    const auto load_values = [&] {
      const auto v = buffer_of_work<Shape::v_buffers>(slot.slot);
      arch::wait(shared.v_empty[v.slot], v.parity ^ 1);
      arch::expect_bytes(shared.v_full[v.slot], sizeof(shared.v[0]));
      tile::load_tile(shared.v[v.slot], args.v, shared.v_full[v.slot], work.keys.row, work.head / args.parts, work.keys.batch,
                      arch::CacheHint::evict_first);
    };
    const auto k = buffer_of_work<Shape::k_buffers>(slot.slot);
    arch::wait(shared.k_empty[k.slot], k.parity ^ 1);
    arch::expect_bytes(shared.k_full[k.slot], sizeof(shared.k[0]));
    tile::load_tile(shared.k[k.slot], args.k, shared.k_full[k.slot], work.keys.row, work.head / args.parts, work.keys.batch,
                    arch::CacheHint::evict_first);
    if (!kLateValues || work.walk.count == 0) load_values();
    // The next work is drawn while the last tiles are under way.
    constexpr int kLastTiles = 3;
    if (work.walk.count == 0) arch::arrive(shared.queue.issued[slot.slot]);
    for (int g = 0; g < args.group; ++g) {
      const int head = work.head * args.group + g, batch = work.queries.batch;
      const int walked = work.rises ? 0 : (work.walk.count - 1) * M;
      int row = work.queries.row + walked;
      const float* lse2 = args.lse2 + work.statistics + g * args.statistics_rows + walked;
#pragma unroll 1
      for (int left = work.walk.count; left > 0; --left, ring.advance()) {
        arch::wait(shared.q_empty[ring.slot], ring.parity ^ 1);
        arch::forget_memory();  // reads the work again: there are 24 registers
        shared.first_query[ring.slot] = row - work.queries.row + work.sequence.live_first + work.walk.first * M;
        if constexpr (kScored<Shape> || kBiased<Shape> || kLeavesScores<Shape>) shared.query_head[ring.slot] = head;
        if constexpr (kScored<Shape>) {
          if (args.walks.visits != nullptr) {
            const Visit visit = args.walks.visits[walk_of(args, work) * args.walks.longest + left - 1];
            row = work.queries.row + visit.tile * M;
            lse2 = args.lse2 + work.statistics + g * args.statistics_rows + visit.tile * M;
            shared.partial[ring.slot] = visit.partial();
            shared.first_query[ring.slot] = work.sequence.live_first + visit.tile * M;
          }
        }
        arch::expect_bytes(shared.q_full[ring.slot], sizeof(shared.q[0]) + M * 4);
        tile::load_tile(shared.q[ring.slot], args.q, shared.q_full[ring.slot], row, head, batch, arch::CacheHint::evict_last);
        arch::load_bulk(arch::shared_address(shared.lse2[ring.slot]), lse2, M * 4, shared.q_full[ring.slot]);
        arch::wait(shared.grad_empty[ring.slot], ring.parity ^ 1);
        arch::expect_bytes(shared.grad_full[ring.slot], sizeof(shared.grad_out[0]) + M * 4);
        tile::load_tile(shared.grad_out[ring.slot], args.grad_out, shared.grad_full[ring.slot], row, head, batch,
                        arch::CacheHint::evict_last);
        arch::load_bulk(arch::shared_address(shared.delta[ring.slot]), lse2 + args.delta_from_lse2, M * 4,
                        shared.grad_full[ring.slot]);
        if constexpr (kBiased<Shape>) {
          arch::forget_memory();
          load_bias<Shape>(shared, args, work, ring.slot, ring.parity);
        }
        arch::forget_memory();
        const int step = work.rises ? M : -M;
        row += step;
        lse2 += step;
        if (kLateValues && g == 0 && left == work.walk.count) load_values();
        if (g + 1 == args.group && left == min(kLastTiles, work.walk.count)) arch::arrive(shared.queue.issued[slot.slot]);
      }
    }
  }
}

/// Starts dK and dV of a warpgroup's 64 keys on their way out, through the k and v tiles: each warp's 16 rows there were read by
/// its own products alone. The buffers are free, and `k_empty` and `v_empty` may be told, after arch::wait_stores_read.
template <class Shape>
__device__ __forceinline__ void store_key_gradients(typename Shape::Shared& shared, const BackwardArguments& args,
                                                    const Work& work, uint32_t kv_slot, int warpgroup, float (&dk)[Shape::D / 2],
                                                    const float (&dv)[Shape::D / 2]) {
  constexpr int D = Shape::D, N = Shape::N;
  const int thread = threadIdx.x & 127, row = 64 * warpgroup + 16 * (thread >> 5);
  const auto& k = shared.k[kv_slot];
  const auto& v = shared.v[kv_slot];
#pragma unroll
  for (int i = 0; i < D / 2; ++i) dk[i] *= args.scale;
  tile::store_accumulators<Shape::element, D>(k.address(), N, 64 * warpgroup, thread, dk);
  tile::store_accumulators<Shape::element, D>(v.address(), N, 64 * warpgroup, thread, dv);
  arch::fence_shared_for_async();
  __syncwarp();
  if ((thread & 31) == 0) {
    tile::store_rows<D>(k, row, args.grad_k, work.keys.row + row, work.head, work.keys.batch);
    tile::store_rows<D>(v, row, args.grad_v, work.keys.row + row, work.head, work.keys.batch);
    arch::commit_stores();
  }
  __syncwarp();
}

}  // namespace deckle::kernels::cuda::attention
