// What all_gradients does besides where there are dropout, a soft cap, slopes, a bias, masks of ranges or of bytes. Of S^T: rows
// are keys, columns queries.
//
// The slope of the cap, 1 - tanh^2, is found again from P when dS needs it, rather than kept in as many registers as there are
// scores: log2 P + lse2 is the score.
//
// A tile of the bias arrives in the buffer of dS: each warp reads, transposed, just what it overwrites with dS later. With
// dS = P (dP - delta), the buffer then holds the gradient of the bias, too, and the copy engine stores it. Of a ragged batch both
// lie in panels (ragged_bias.h).
#pragma once

#include "deckle/kernels/cuda/attention/backward_common.cuh"
#include "deckle/kernels/cuda/attention/portable_scores.cuh"
#include "deckle/kernels/cuda/tile/matmul.cuh"

namespace deckle::kernels::cuda::attention {

/// Whether there may be dropout, a soft cap or slopes, and whether there may be a bias, in kernels of a shape.
template <class Shape>
inline constexpr bool kScored = requires {
  requires Shape::scored;
};
template <class Shape>
inline constexpr bool kBiased = requires {
  requires Shape::biased;
};

/// What is kept of 64 keys from `key` and M queries from `query` on.
template <int M>
__device__ __forceinline__ void draw_kept(portable::KeptFlags<M>& kept, const BackwardArguments& args, int sequence, int head,
                                          int key, int query) {
  const int thread = threadIdx.x & 127;
  if (query % 16 == 0) {
#pragma unroll
    for (int m = 0; m < M / 32; ++m) {
      arch::forget_memory();
      const portable::Dropout dropout(args.features, sequence, head);
      uint32_t flags[2];
      dropout.flags<false>(flags, key + 16 * (thread >> 5), query + 32 * m);
      kept.add(2 * m, flags[0]);
      kept.add(2 * m + 1, flags[1]);
    }
    return;
  }
  const portable::Dropout dropout(args.features, sequence, head);
  // Live rows begin anywhere where a causal mask leaves the first ones without keys.
  const int row = key + tile::accumulator_row(thread), column = query + tile::accumulator_column(thread);
#pragma unroll
  for (uint32_t& word : kept.word) {
    const int first = column + 64 * static_cast<int>(&word - kept.word);
#pragma unroll 1
    for (int i = 0; i < 32; ++i) {
      const int parity = i / 4 % 2, byte = i % 4, at = first + 16 * (i / 8) + 8 * (byte & 1) + parity;
      const auto bit = static_cast<uint32_t>(dropout.keeps(at, row + 8 * (byte >> 1)));
      word = (i % 8 == 0 ? word >> 2 & 0x3f3f3f3fu : word) | bit << (8 * byte + 7 - parity);
    }
  }
}

/// The packed weights of P that are kept.
template <int M>
__device__ __forceinline__ void drop(uint32_t (&packed)[M / 4], portable::KeptFlags<M>& kept) {
#pragma unroll
  for (uint32_t& word : kept.word) arch::forget(word);  // flags are shifted again, not kept one by one
#pragma unroll
  for (int m = 0; m < M / 16; ++m) {
    const uint32_t even = kept.at(m, 0), odd = kept.at(m, 1);
    packed[4 * m] &= arch::permute_bytes<0xcc88>(even, odd);
    packed[4 * m + 1] &= arch::permute_bytes<0xeeaa>(even, odd);
    packed[4 * m + 2] &= arch::permute_bytes<0xdd99>(even, odd);
    packed[4 * m + 3] &= arch::permute_bytes<0xffbb>(even, odd);
  }
}

/// Soft cap and slopes of a tile of S^T: 64 keys from `key` and M queries from `query` on, of one head. A loop for one of them
/// asks nothing.
template <int M, FeatureSet set>
class ChangedScores {
  static constexpr bool kAny = set == FeatureSet::any;

 public:
  __device__ __forceinline__ ChangedScores(const BackwardArguments& args, const SequencePair& sequence, int head, int key,
                                           int query)
      : features_(args.features) {
    if constexpr (set == FeatureSet::cap) return;
    slope_ = set == FeatureSet::slopes || features_.slopes != nullptr ? features_.slopes[head] : 0.0f;
    const int thread = threadIdx.x & 127, offset = args.bottom_right ? sequence.key_rows - sequence.query_rows : 0;
    position_ = static_cast<float>(query + tile::accumulator_column(thread) + offset - key - tile::accumulator_row(thread));
  }

  /// Scores in log2 units in place of products.
  __device__ __forceinline__ void change(float (&s)[M / 2]) const {
    const float slope = -kLog2E * slope_;
    if (set == FeatureSet::cap || (kAny && features_.cap > 0.0f)) {
      const float scale = features_.scale * features_.inverse_cap * (2 * kLog2E), cap = kLog2E * features_.cap;
      for_each([&](int i, float distance) {  // cap tanh(x) = cap - 2 cap / (1 + e^(2 x)), of either sign
        s[i] = fmaf(-2.0f * cap, arch::reciprocal(1.0f + arch::exp2(s[i] * scale)), cap);
        if constexpr (kAny) s[i] = fmaf(slope, distance, s[i]);
      });
    } else if (set == FeatureSet::slopes || (kAny && features_.slopes != nullptr)) {
      const float scale = features_.scale * kLog2E;
      for_each([&](int i, float distance) { s[i] = fmaf(slope, distance, s[i] * scale); });
    } else {
#pragma unroll
      for (float& score : s) score *= features_.scale * kLog2E;
    }
  }

  /// dS behind the cap, to the gradient of the slope.
  __device__ __forceinline__ void add_slope_gradient(float& sum, const float (&ds)[M / 2]) const {
    for_each([&](int i, float distance) { sum = fmaf(-ds[i], distance, sum); });
  }

  /// dS before the cap in place of that behind it; `lse2` is the address of the queries' statistics.
  __device__ __forceinline__ void change_gradients(float (&ds)[M / 2], const float (&p)[M / 2], uint32_t lse2) const {
    if (set == FeatureSet::slopes || (kAny && features_.cap <= 0.0f)) return;
    const float slope = kLog2E * slope_, inverse = features_.inverse_cap / kLog2E;
    lse2 += 4 * tile::accumulator_column(threadIdx.x & 127);
    float2 pair;
    for_each([&](int i, float distance) {
      if (i % 4 == 0) pair = arch::load_shared_pair(lse2 + 8 * i);
      float score = arch::log2(p[i]) + (i % 2 == 0 ? pair.x : pair.y);
      if constexpr (kAny) score = fmaf(slope, distance, score);
      const float tanh = fminf(fmaxf(score * inverse, -1.0f), 1.0f);  // P = 0 has no logarithm, and dS = 0
      ds[i] *= fmaf(-tanh, tanh, 1.0f);
    });
  }

 private:
  static constexpr float kLog2E = 1.4426950408889634f;

  /// body(i, distance between the positions of the query and the key) of each accumulator i.
  template <class Body>
  __device__ __forceinline__ void for_each(const Body& body) const {
    float position = position_;
#pragma unroll
    for (int k = 0; k < M / 8; ++k) {
      arch::forget(position);  // distances are computed again, not kept from one loop to the next
#pragma unroll
      for (int j = 0; j < 4; ++j) body(4 * k + j, fabsf(position + static_cast<float>(8 * k + j % 2 - 8 * (j / 2))));
    }
  }

  const portable::ScoreFeatures& features_;
  float slope_, position_;
};

/// Zeros in the rows of a tile whose queries attend nothing: lse2 is +inf. By all of a warpgroup; if several do, they write the
/// same.
template <class Tile>
__device__ __forceinline__ void clear_dead_rows(const Tile& tile, const float* lse2, int warpgroup) {
  const auto dead = [&](int row) { return lse2[row] == INFINITY; };
  const int thread = threadIdx.x & 127;
  bool any = false;
#pragma unroll
  for (int row = 0; row < Tile::rows; row += 32) any |= dead(row + thread % 32);
  if (!__any_sync(~0u, any)) return;  // the same for every warp
#pragma unroll 1
  for (int row = thread / 8; row < Tile::rows; row += 16) {
    if (!dead(row)) continue;
#pragma unroll
    for (int panel = 0; panel < Tile::bytes / Tile::panel_bytes; ++panel) {
      arch::store_shared_quad(tile.address() + panel * Tile::panel_bytes + row * tile::kPanelRowBytes + 16 * (thread % 8), 0.0f,
                              0.0f, 0.0f, 0.0f);
    }
  }
  arch::fence_shared_for_async();
  if (warpgroup == 0) {
    arch::named_sync<128>(4);
  } else {
    arch::named_sync<128>(5);
  }
}

/// -inf where masks of ranges or of bytes forbid: of 64 keys from `key` and M queries from `query` on.
template <int M>
__device__ __forceinline__ void mask_scores(float (&s)[M / 2], const BackwardArguments& args, const SequencePair& sequence,
                                            int key, int query) {
  const int thread = threadIdx.x & 127;
  const int first_key = key + tile::accumulator_row(thread), first_query = query + tile::accumulator_column(thread);
  // What rows and keys that do not exist read is of no account.
  const auto query_at = [&](int k, int e) { return min(first_query + 8 * k + e, sequence.query_rows - 1); };
  const int64_t packed = args.query_offsets == nullptr ? int64_t{sequence.index} * args.query_rows : sequence.query_start;
  if (const SequenceRanges ranges = sequence_ranges(args.features.ranges, packed); ranges.bounds != nullptr) {
#pragma unroll
    for (int k = 0; k < M / 8; ++k) {
      arch::forget_memory();  // no addresses for all of them at once
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int2* const bounds = ranges.bounds + int64_t{query_at(k, e)} * ranges.count;
        bool upper = false, lower = false;
#pragma unroll 1
        for (int r = 0; r < ranges.count; ++r) {
          const int2 range = bounds[r];
          upper |= first_key >= range.x && first_key < range.y;
          lower |= first_key + 8 >= range.x && first_key + 8 < range.y;
        }
        s[4 * k + e] = upper ? s[4 * k + e] : -INFINITY;
        s[4 * k + 2 + e] = lower ? s[4 * k + 2 + e] : -INFINITY;
      }
    }
  }
  const HeadPlane<const uint8_t> bytes =
      head_plane<const uint8_t>(args.features.forbidden, sequence.index, 0, sequence.query_rows, sequence.key_rows);
  if (bytes.data == nullptr) return;
  const int64_t upper = min(first_key, sequence.key_rows - 1) * bytes.column_stride;
  const int64_t lower = min(first_key + 8, sequence.key_rows - 1) * bytes.column_stride;
#pragma unroll
  for (int k = 0; k < M / 8; ++k) {
    if (k % 2 == 0) arch::forget_memory();
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const uint8_t* const of_query = bytes.data + query_at(k, e) * bytes.row_stride;
      s[4 * k + e] = of_query[upper] != 0 ? s[4 * k + e] : -INFINITY;
      s[4 * k + 2 + e] = of_query[lower] != 0 ? s[4 * k + 2 + e] : -INFINITY;
    }
  }
}

/// What a warp has added up to the gradient of a head's slope over one walk, to its place; the next walk begins with 0.
template <class Shape>
__device__ __forceinline__ void store_slope_sum(const BackwardArguments& args, const Work& work, int head, float& sum) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
  const SequencePair& s = work.sequence;
  const int64_t tile =
      work.tile + (args.key_offsets == nullptr ? int64_t{s.index} * args.tiles : s.key_start / Shape::N + s.index);
  const int warp = threadIdx.x / 32;
  if (threadIdx.x % 32 == 0) args.slope_sums[int64_t{head} * args.slope_parts + tile * kKeyWarps + warp] = sum;
  sum = 0.0f;
}

/// Where this lane's rows of a tile of queries x keys begin for matrices of 8 x 8, transposed, of warpgroup `warpgroup`.
template <class Tile>
__device__ __forceinline__ uint32_t transposed_address(const Tile& tile, int warpgroup, int thread) {
  const int key = 16 * (thread >> 5) + 8 * ((thread >> 3) & 1), query = 8 * ((thread >> 4) & 1) + (thread & 7);
  return tile.address() + warpgroup * Tile::panel_bytes + query * tile::kPanelRowBytes + (((key / 8) ^ (query & 7)) << 4);
}

/// Where the part of panel `panel` of a work's tile of keys lies that the queries from `query` on see, in elements from that of
/// its head on. Whatever the device says of offsets, it lies among them.
template <class Shape>
__device__ __forceinline__ int64_t panel_part(const BackwardArguments& args, const Work& work, int panel, int query) {
  const SequencePair& s = work.sequence;
  const int64_t row = panel_row(args.panels.starts[s.index], panel_rows(s.live_rows, Shape::M),
                                work.tile * (Shape::N / kPanelKeys) + panel, query - s.live_first);
  return kPanelKeys * min(row, args.panels.head_rows - Shape::M);
}

/// One thread: the bias of the work's keys and the queries of a slot.
template <class Shape>
__device__ __forceinline__ void load_bias(typename Shape::Shared& shared, const BackwardArguments& args, const Work& work,
                                          uint32_t slot, uint32_t parity) {
  arch::wait(shared.ds_empty[slot], parity ^ 1);
  arch::expect_bytes(shared.bias_full[slot], sizeof(shared.ds[0]));
  if (const BiasPanels& panels = args.panels; panels.starts != nullptr) {
    const int64_t head = panels.has_heads ? shared.query_head[slot] - panels.first_head : 0;
#pragma unroll 1
    for (int panel = 0; panel < Shape::N / kPanelKeys; ++panel) {
      arch::load_bulk(
          shared.ds[slot].address() + panel * shared.ds[0].panel_bytes,
          panels.bias + head * panels.head_rows * kPanelKeys + panel_part<Shape>(args, work, panel, shared.first_query[slot]),
          shared.ds[0].panel_bytes, shared.bias_full[slot]);
    }
    return;
  }
  const int query = shared.first_query[slot], head = args.bias_has_heads ? shared.query_head[slot] : 0;
  const int sequence = args.bias_has_sequences ? work.sequence.index : 0;
#pragma unroll
  for (int panel = 0; panel < Shape::N / tile::kPanelColumns; ++panel) {
    arch::load_box(shared.ds[slot].address() + panel * shared.ds[0].panel_bytes, args.bias, shared.bias_full[slot],
                   work.tile * Shape::N + panel * tile::kPanelColumns, query, head, sequence, arch::CacheHint::evict_first);
  }
}

}  // namespace deckle::kernels::cuda::attention
