// Forward over forward: out and lse along a and b, where the operands move as x + s a + t b + s t ab.
//
//   zab = cap' yab + cap'' ya yb + ...       c = (za - lse_a)(zb - lse_b) + zab       lse_ab = sum P c
//   out_ab = sum R P [(c - lse_ab) v + (za - lse_a) vb + (zb - lse_b) va + vab]
//
// lse_a and lse_b come from two walks of the JVP; this is its walk with c in place of tz.
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/general_attention/kernels.h"
#include "deckle/kernels/cuda/general_attention/softmax.cuh"

namespace deckle::kernels::cuda::general {
namespace {

struct Mixed {
  AttentionOperands x, a, b, ab;
  const void *lse_a, *lse_b;
  AttentionResults y;
};

/// tile *= e, and 0 where e is 0.
template <typename T>
__device__ void weigh(Tile<T>& tile, const Tile<T>& e) {
#pragma unroll
  for (int r = 0; r < kSide; ++r) {
#pragma unroll
    for (int c = 0; c < kSide; ++c) tile[r][c] = e[r][c] != T(0) ? e[r][c] * tile[r][c] : T(0);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 1) mixed_walk(const Call call, const Mixed m, int panels) {
  __shared__ Shared<T> shared;
  const AttentionProblem& p = call.p;
  const int width = static_cast<int>(p.head_dim), value_width = static_cast<int>(p.value_dim);
  const RowBlock block(call, panels, kTile);
  const Head& head = block.head;
  const Features<T> features(p, m.x, head), of_a(p, m.a, head), of_b(p, m.b, head), of_ab(p, m.ab, head);
  const Plane mask(p.mask, nullptr, head);
  const auto of_queries = [&](const AttentionRows& rows) {
    return operand(rows, p.dtype, block.first, head.queries, head.first_row, head.head);
  };
  const Operand q = of_queries(m.x.q), aq = of_queries(m.a.q), bq = of_queries(m.b.q), abq = of_queries(m.ab.q);
  const bool featured = features.any() || of_a.any() || of_b.any() || of_ab.any() || p.soft_cap != 0;
  const T sink = of_head<T>(m.x.sinks, head.head, -infinity<T>());
  T lse_a[kSide], lse_b[kSide];
  RunningRows<T> rows(sink);
  RunningMean<T> means(T(0));
  for (int r = 0; r < kSide; ++r) {
    const int row = block.first + query_of(r);
    lse_a[r] = lse_b[r] = T(0);
    if (row >= head.queries) continue;
    lse_a[r] = static_cast<const T*>(m.lse_a)[head.statistic(p, row)];
    lse_b[r] = static_cast<const T*>(m.lse_b)[head.statistic(p, row)];
    if (sink == -infinity<T>()) continue;
    means.mean[r] = (of_head<T>(m.a.sinks, head.head, T(0)) - lse_a[r]) * (of_head<T>(m.b.sinks, head.head, T(0)) - lse_b[r]) +
                    of_head<T>(m.ab.sinks, head.head, T(0));
  }
  Tile<T> out[1], mixed[1];
  clear(out);
  clear(mixed);
  for (int key = block.keys.begin; key < block.keys.end; key += kTile) {
    const Place at{block.first, key};
    const uint32_t seen = seen_pairs(p, head, mask, at);
    if (!__syncthreads_or(seen != 0)) continue;
    const auto of_keys = [&](const AttentionRows& keys) {
      return operand(keys, p.dtype, key, head.keys, head.first_key, head.kv_head);
    };
    const Operand k = of_keys(m.x.k), ak = of_keys(m.a.k), bk = of_keys(m.b.k);
    Tile<T> z, za, zb, zab;
    for (Tile<T>* tile : {&z, &za, &zb, &zab}) fill(*tile, T(0));
    add_product(z, q, k, width, shared);
    add_product(za, aq, k, width, shared);
    add_product(za, q, ak, width, shared);
    add_product(zb, bq, k, width, shared);
    add_product(zb, q, bk, width, shared);
    add_product(zab, abq, k, width, shared);
    add_product(zab, bq, ak, width, shared);
    add_product(zab, aq, bk, width, shared);
    add_product(zab, q, of_keys(m.ab.k), width, shared);
    // z, za - lse_a, zb - lse_b and c.
    for_pairs(featured, at, {&z, &za, &zb, &zab}, [&](auto with, int n, int i, int j, T(&pair)[4]) {
      T w = 0, ya, yb, yab;
      const bool sees = seen >> n & 1;
      pair[0] = sees ? logit<with.value>(p, head, features, i, j, pair[0], w) : -infinity<T>();
      const T a = sees ? logit_tangent<with.value>(p, head, of_a, i, j, pair[1], w, ya) : T(0),
              b = sees ? logit_tangent<with.value>(p, head, of_b, i, j, pair[2], w, yb) : T(0);
      T c = sees ? logit_tangent<with.value>(p, head, of_ab, i, j, pair[3], w, yab) : T(0);
      if (with.value && sees) c += cap_bend(p, w) * ya * yb;
      pair[1] = a - of_row(lse_a, n);
      pair[2] = b - of_row(lse_b, n);
      pair[3] = c + pair[1] * pair[2];
    });
    T rescale[kSide], shift[kSide];
    rows.add(z, rescale);
    means.add(z, rows, zab, shift);
    if (m.y.out.data == nullptr) continue;
    weigh(za, z);
    weigh(zb, z);
    const uint32_t kept = kept_pairs(call, head, at);
    for (Tile<T>* tile : {&z, &za, &zb, &zab}) drop(*tile, kept);
    recentre(out, mixed, rescale, shift);
    const auto add = [&](Tile<T>(&sum)[1], const Tile<T>& weights, const AttentionRows& values) {
      add_values<true>(sum, weights, of_keys(values), block.column, value_width, shared);
    };
    add(out, z, m.x.v);
    add(mixed, zab, m.x.v);
    add(mixed, z, m.ab.v);
    add(mixed, za, m.b.v);
    add(mixed, zb, m.a.v);
  }
  const T factor = dropout_factor<T>(p);
  if (m.y.out.data != nullptr) {
    store_tiles(mixed, m.y.out, p.dtype, block.row(), block.count, head.head, block.column, value_width,
                [&](int r) { return factor * rows.share(r); });
  }
  if (m.y.lse == nullptr || !block.writes_statistics()) return;
  for (int r = 0; r < kSide; ++r) {
    const int row = block.first + query_of(r);
    if (row < head.queries) static_cast<T*>(m.y.lse)[head.statistic(p, row)] = rows.total[r] == T(0) ? T(0) : means.mean[r];
  }
}

}  // namespace

void mixed(const Call& call, const AttentionOperands& x, const AttentionOperands& a, const AttentionOperands& b,
           const AttentionOperands& ab, const AttentionResults& y, void* workspace, cudaStream_t stream) {
  if (call.row_task_count == 0) return;
  const int64_t bytes = statistic_bytes(call);
  void *const lse_a = workspace, *const lse_b = static_cast<char*>(workspace) + bytes;
  jvp(call, x, a, {.lse_tangent = lse_a}, stream);
  jvp(call, x, b, {.lse_tangent = lse_b}, stream);
  const int panels = y.out.data == nullptr ? 1 : panels_of(call.p.value_dim);
  attention::launch_kernel("attention: forward over forward",
                           call.p.dtype == DType::float64 ? mixed_walk<double> : mixed_walk<float>, row_grid(call, panels),
                           kThreads, 0, stream, call, Mixed{x, a, b, ab, lse_a, lse_b, y}, panels);
}

int64_t mixed_bytes(const Call& call) { return 2 * statistic_bytes(call); }

}  // namespace deckle::kernels::cuda::general
