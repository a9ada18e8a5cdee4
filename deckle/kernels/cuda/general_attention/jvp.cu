// out, lse and their tangents in one walk over keys.     tlse = sum P tz     tout = sum R P [(tz - tlse) v + tv]
//
// The second sum is kept centred on the running mean of tz, so that nothing large cancels at the end.
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/general_attention/kernels.h"
#include "deckle/kernels/cuda/general_attention/softmax.cuh"

namespace deckle::kernels::cuda::general {
namespace {

template <typename T, int kSums>
__global__ void __launch_bounds__(kThreads, 1)
    jvp_walk(const Call call, const AttentionOperands x, const AttentionOperands t, const JvpResults y, int panels) {
  __shared__ Shared<T> shared;
  const AttentionProblem& p = call.p;
  const int width = static_cast<int>(p.head_dim), value_width = static_cast<int>(p.value_dim);
  const RowBlock block(call, panels, kSums * kTile);
  const Head& head = block.head;
  const Features<T> features(p, x, head), moves(p, t, head);
  const Plane mask(p.mask, nullptr, head);
  const Operand q = operand(x.q, p.dtype, block.first, head.queries, head.first_row, head.head),
                tq = operand(t.q, p.dtype, block.first, head.queries, head.first_row, head.head);
  const bool featured = features.any() || moves.any() || p.soft_cap != 0;
  const T sink = of_head<T>(x.sinks, head.head, -infinity<T>());
  RunningRows<T> rows(sink);
  RunningMean<T> means(sink == -infinity<T>() ? T(0) : of_head<T>(t.sinks, head.head, T(0)));
  const bool wants_out = y.out.data != nullptr || y.tangent.data != nullptr || y.rounded_tangent.data != nullptr;
  Tile<T> out[kSums], moved[kSums];
  clear(out);
  clear(moved);
  for (int key = block.keys.begin; key < block.keys.end; key += kTile) {
    const Place at{block.first, key};
    const uint32_t seen = seen_pairs(p, head, mask, at);
    if (!__syncthreads_or(seen != 0)) continue;
    const auto of_keys = [&](const AttentionRows& keys) {
      return operand(keys, p.dtype, key, head.keys, head.first_key, head.kv_head);
    };
    Tile<T> z, tz;
    fill(z, T(0));
    fill(tz, T(0));
    add_product(z, q, of_keys(x.k), width, shared);
    add_product(tz, tq, of_keys(x.k), width, shared);
    add_product(tz, q, of_keys(t.k), width, shared);
    for_pairs(featured, at, {&z, &tz}, [&](auto with, int n, int i, int j, T(&pair)[2]) {
      T w = 0, ty;
      const bool sees = seen >> n & 1;
      pair[0] = sees ? logit<with.value>(p, head, features, i, j, pair[0], w) : -infinity<T>();
      pair[1] = sees ? logit_tangent<with.value>(p, head, moves, i, j, pair[1], w, ty) : T(0);
    });
    T rescale[kSide], shift[kSide];
    rows.add(z, rescale);
    means.add(z, rows, tz, shift);
    if (!wants_out) continue;
    const uint32_t kept = kept_pairs(call, head, at);
    drop(z, kept);
    drop(tz, kept);
    recentre(out, moved, rescale, shift);
    add_values<true>(moved, tz, of_keys(x.v), block.column, value_width, shared);
    add_values<true>(moved, z, of_keys(t.v), block.column, value_width, shared);
    add_values<true>(out, z, of_keys(x.v), block.column, value_width, shared);
  }
  const T factor = dropout_factor<T>(p);
  const auto write = [&](const Tile<T>(&sums)[kSums], const AttentionRows& to, DType dtype) {
    if (to.data == nullptr) return;
    store_tiles(sums, to, dtype, block.row(), block.count, head.head, block.column, value_width,
                [&](int r) { return factor * rows.share(r); });
  };
  write(out, y.out, y.dtype);
  write(moved, y.tangent, y.dtype);
  write(moved, y.rounded_tangent, p.dtype);
  if (y.lse_tangent == nullptr || !block.writes_statistics()) return;
  for (int r = 0; r < kSide; ++r) {
    const int row = block.first + query_of(r);
    if (row < head.queries) static_cast<T*>(y.lse_tangent)[head.statistic(p, row)] = rows.total[r] == T(0) ? T(0) : means.mean[r];
  }
}

}  // namespace

void jvp(const Call& call, const AttentionOperands& x, const AttentionOperands& t, const JvpResults& y, cudaStream_t stream) {
  if (call.row_task_count == 0) return;
  const bool statistics_alone = y.out.data == nullptr && y.tangent.data == nullptr && y.rounded_tangent.data == nullptr;
  const bool two = call.p.dtype != DType::float64 && !statistics_alone && has_two_sums<float>(call.p.value_dim);
  const int panels = statistics_alone ? 1 : panels_of(call.p.value_dim, two ? 2 : 1);
  attention::launch_kernel("attention: forward mode",
                           two                              ? jvp_walk<float, 2>
                           : call.p.dtype == DType::float64 ? jvp_walk<double, 1>
                                                            : jvp_walk<float, 1>,
                           row_grid(call, panels), kThreads, 0, stream, call, x, t, y, panels);
}

}  // namespace deckle::kernels::cuda::general
