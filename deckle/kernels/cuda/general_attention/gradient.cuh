// One tile of the backward's weights or, in the second order, of their tangents; letters as in docs/attention.md.
//
//   dZ  = P (dP - Delta)                                         dY  = cap' dZ
//   tdZ = P [(tz - tlse)(dP - Delta) + tdP - tDelta]             tdY = cap' tdZ + cap'' ty dZ
#pragma once

#include "deckle/kernels/cuda/general_attention/softmax.cuh"

namespace deckle::kernels::cuda::general {

/// What the passes read. The second order's parts are empty in the backward.
struct Cotangents {
  AttentionOperands x, t;
  AttentionResults dy, tdy;
  const void *lse, *delta, *lse_tangent, *delta_tangent;  // [packed rows, heads]
};

/// Statistics of this thread's four rows.
template <typename T>
struct RowStatistics {
  T lse[kSide], delta[kSide], lse_tangent[kSide], delta_tangent[kSide];

  template <bool second>
  __device__ void read(const AttentionProblem& p, const Cotangents& g, const Head& head, int first) {
#pragma unroll
    for (int r = 0; r < kSide; ++r) {
      const int row = first + query_of(r);
      const int64_t at = head.statistic(p, row);
      const bool exists = row < head.queries;
      lse[r] = exists ? static_cast<const T*>(g.lse)[at] : infinity<T>();
      if (lse[r] == -infinity<T>()) lse[r] = infinity<T>();  // saw nothing: its probabilities are 0
      delta[r] = exists ? static_cast<const T*>(g.delta)[at] : T(0);
      lse_tangent[r] = second && exists ? static_cast<const T*>(g.lse_tangent)[at] : T(0);
      delta_tangent[r] = second && exists ? static_cast<const T*>(g.delta_tangent)[at] : T(0);
    }
  }
};

/// Notes which rows of the tile at `first` are there and have seen something; the others' q and dO are never read. A barrier must
/// follow.
template <typename T>
__device__ void note_live(const AttentionProblem& p, const Cotangents& g, const Head& head, int first, Shared<T>& shared) {
  if (threadIdx.x >= kTile) return;
  const int row = first + row_at(threadIdx.x);
  shared.live[threadIdx.x] = row < head.queries && static_cast<const T*>(g.lse)[head.statistic(p, row)] != -infinity<T>();
}

template <typename T>
struct Weights {
  Tile<T> p;      // R P
  Tile<T> moved;  // R P (tz - tlse)
  Tile<T> d;      // dZ, or dY
  Tile<T> td;     // tdZ, or tdY
};

template <typename T, bool second>
class GradientTile {
 public:
  __device__ GradientTile(const Call& call, const Cotangents& g, const Head& head)
      : call_(call),
        g_(g),
        head_(head),
        features_(call.p, g.x, head),
        moves_(call.p, g.t, head),
        featured_(features_.any() || moves_.any() || call.p.soft_cap != 0) {}

  /// All threads of the block call; shared.live is of the tile's rows.
  template <bool wants_p>
  __device__ void compute(Place at, uint32_t seen, bool dy, Shared<T>& shared, Weights<T>& weights) const {
    const AttentionProblem& p = call_.p;
    const int width = static_cast<int>(p.head_dim), value_width = static_cast<int>(p.value_dim);
    const Operand q = of_queries(g_.x.q, at, shared), k = of_keys(g_.x.k, at);
    Tile<T>&z = weights.p, &tz = weights.moved, &dp = weights.d, &tdp = weights.td;
    fill(z, T(0));
    add_product(z, q, k, width, shared);
    if constexpr (second) {
      fill(tz, T(0));
      add_product(tz, of_queries(g_.t.q, at, shared), k, width, shared);
      add_product(tz, q, of_keys(g_.t.k, at), width, shared);
    }
    if constexpr (!wants_p) {
      const Operand dout = of_queries(g_.dy.out, at, shared), v = of_keys(g_.x.v, at);
      fill(dp, T(0));
      add_product(dp, dout, v, value_width, shared);
      if constexpr (second) {
        fill(tdp, T(0));
        add_product(tdp, of_queries(g_.tdy.out, at, shared), v, value_width, shared);
        add_product(tdp, dout, of_keys(g_.t.v, at), value_width, shared);
      }
    }
    const uint32_t kept = kept_pairs(call_, head_, at);
    RowStatistics<T> rows;
    rows.template read<second>(p, g_, head_, at.row);
    if constexpr (second) {
      for_pairs(featured_, at, {&weights.p, &weights.moved, &weights.d, &weights.td},
                [&](auto with, int n, int i, int j, T(&pair)[4]) {
                  weigh<with.value, wants_p>(n, i, j, seen, kept, dy, rows, pair[0], pair[1], pair[2], pair[3]);
                });
    } else {
      for_pairs(featured_, at, {&weights.p, &weights.d}, [&](auto with, int n, int i, int j, T(&pair)[2]) {
        T none = 0, no_tangent = 0;
        weigh<with.value, wants_p>(n, i, j, seen, kept, dy, rows, pair[0], none, pair[1], no_tangent);
      });
    }
  }

  __device__ Operand of_queries(const AttentionRows& rows, Place at, const Shared<T>& shared) const {
    return operand(rows, call_.p.dtype, at.row, head_.queries, head_.first_row, head_.head, shared.live);
  }
  __device__ Operand of_keys(const AttentionRows& rows, Place at) const {
    return operand(rows, call_.p.dtype, at.key, head_.keys, head_.first_key, head_.kv_head);
  }

 private:
  /// From products to weights: q k, tq k + q tk, dO v and tdO v + dO tv to R P, R P (tz - tlse), dZ (or dY) and tdZ (or tdY).
  template <bool featured, bool wants_p>
  __device__ __forceinline__ void weigh(int n, int i, int j, uint32_t seen, uint32_t kept, bool dy, const RowStatistics<T>& rows,
                                        T& product, T& moved, T& d, T& td) const {
    const AttentionProblem& p = call_.p;
    const bool sees = seen >> n & 1, keep = kept >> n & 1;
    const T factor = dropout_factor<T>(p);
    T w = 0, ty = 0, centred = 0;
    const T share = sees ? exp(logit<featured>(p, head_, features_, i, j, product, w) - of_row(rows.lse, n)) : T(0);
    const bool counts = share != T(0);  // NaN does
    if constexpr (second) {
      const T tz = logit_tangent<featured>(p, head_, moves_, sees ? i : 0, sees ? j : 0, moved, w, ty);
      centred = counts ? tz - of_row(rows.lse_tangent, n) : T(0);
    }
    if constexpr (wants_p) {
      product = keep ? factor * share : T(0);
      if constexpr (second) moved = keep ? factor * share * centred : T(0);
    } else {
      const T slack = (keep ? factor * d : T(0)) - of_row(rows.delta, n), slope = dy ? cap_slope(w) : T(1);
      const T dz = counts ? share * slack : T(0);
      d = slope * dz;
      if constexpr (second) {
        const T moved_product = keep ? factor * td : T(0);
        const T tdz = counts ? share * (centred * slack + (moved_product - of_row(rows.delta_tangent, n))) : T(0);
        td = slope * tdz + (featured && dy && counts ? cap_bend(p, w) * ty * dz : T(0));
      }
    }
  }

  const Call& call_;
  const Cotangents& g_;
  const Head& head_;
  Features<T> features_, moves_;
  bool featured_;
};

}  // namespace deckle::kernels::cuda::general
