// out = sum R P v and lse, in one walk over keys with a running maximum.
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/general_attention/kernels.h"
#include "deckle/kernels/cuda/general_attention/softmax.cuh"

namespace deckle::kernels::cuda::general {
namespace {

template <typename T, int kSums>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 ? 2 : 1)
    forward_walk(const Call call, const AttentionOperands x, const AttentionResults y, int panels) {
  if (unwanted(call)) return;
  __shared__ Shared<T> shared;
  const AttentionProblem& p = call.p;
  const RowBlock block(call, panels, kSums * kTile);
  const Head& head = block.head;
  const Features<T> features(p, x, head);
  const Plane mask(p.mask, nullptr, head);
  const Operand q = operand(x.q, p.dtype, block.first, head.queries, head.first_row, head.head);
  const bool featured = features.any() || p.soft_cap != 0;
  RunningRows<T> rows(of_head<T>(x.sinks, head.head, -infinity<T>()));
  Tile<T> out[kSums];
  clear(out);
  for (int key = block.keys.begin; key < block.keys.end; key += kTile) {
    const Place at{block.first, key};
    const uint32_t seen = seen_pairs(p, head, mask, at);
    if (!__syncthreads_or(seen != 0)) continue;
    Tile<T> z;
    fill(z, T(0));
    add_product(z, q, operand(x.k, p.dtype, key, head.keys, head.first_key, head.kv_head), static_cast<int>(p.head_dim), shared);
    for_pairs(featured, at, {&z}, [&](auto with, int n, int i, int j, T(&pair)[1]) {
      T w = 0;
      pair[0] = seen >> n & 1 ? logit<with.value>(p, head, features, i, j, pair[0], w) : -infinity<T>();
    });
    T rescale[kSide];
    rows.add(z, rescale);
    drop(z, kept_pairs(call, head, at));
    scale_rows(out, rescale);
    add_values<true>(out, z, operand(x.v, p.dtype, key, head.keys, head.first_key, head.kv_head), block.column,
                     static_cast<int>(p.value_dim), shared);
  }
  const T factor = dropout_factor<T>(p);
  store_tiles(out, y.out, p.dtype, block.row(), block.count, head.head, block.column, static_cast<int>(p.value_dim),
              [&](int r) { return factor * rows.share(r); });
  if (y.lse == nullptr || !block.writes_statistics()) return;
  for (int r = 0; r < kSide; ++r) {
    const int row = block.first + query_of(r);
    if (row < head.queries) static_cast<T*>(y.lse)[head.statistic(p, row)] = rows.lse(r);
  }
}

}  // namespace

void forward(const Call& call, const AttentionOperands& x, const AttentionResults& y, cudaStream_t stream) {
  if (call.row_task_count == 0) return;
  const bool two = call.p.dtype != DType::float64 && has_two_sums<float>(call.p.value_dim);
  const int panels = panels_of(call.p.value_dim, two ? 2 : 1);
  attention::launch_kernel("attention: forward",
                           two                              ? forward_walk<float, 2>
                           : call.p.dtype == DType::float64 ? forward_walk<double, 1>
                                                            : forward_walk<float, 1>,
                           row_grid(call, panels), kThreads, 0, stream, call, x, y, panels);
}

}  // namespace deckle::kernels::cuda::general
