// The walk of one gradient of float32: see split_backward.cu for the mathematics, pair_gradients.cuh for the walk.
#pragma once

#include "deckle/kernels/cuda/attention/pair_gradients.cuh"
#include "deckle/kernels/cuda/attention/split_parts.cuh"

namespace deckle::kernels::cuda::attention {

struct SplitGradientArguments {
  GradientArguments walk;
  const int *q_peaks, *k_peaks, *v_peaks, *grad_peaks;
  AttentionTensor gradient;  // float32
  int columns;
};

/// Brings each row of w to below 2^15, by a power of two; the inverse is what products with w are multiplied with.
template <int N>
__device__ __forceinline__ void scale_to_halves(float (&w)[N / 2], float (&inverse)[2]) {
  float most[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < N / 2; ++i) most[(i >> 1) & 1] = fmaxf(most[(i >> 1) & 1], fabsf(w[i]));
  float factor[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int exponent = min(max(__float_as_int(quad_max(most[h])) >> 23, 20), 250);
    factor[h] = __int_as_float((268 - exponent) << 23);
    inverse[h] = __int_as_float((exponent - 14) << 23);
  }
  scale_rows(w, factor);
}

template <class Shape>
__device__ __forceinline__ void store_gradient(const SplitGradientArguments& args, const GradientItem& item, int warpgroup,
                                               const float (&out)[Shape::D / 2]) {
  const int thread = threadIdx.x % 128;
  const bool ragged = args.walk.problem.queries.offsets != nullptr;
  const AttentionTensor& gradient = args.gradient;
  const float scale = Shape::role == Role::of_v ? 1.0f : args.walk.problem.scale;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = item.first_row + 64 * warpgroup + tile::accumulator_row(thread) + 8 * h;
    if (row >= item.owned) continue;
    float* to = static_cast<float*>(gradient.data) + (ragged ? 0 : item.sequence * gradient.batch_stride) +
                (item.start + row) * gradient.row_stride + item.head * gradient.head_stride;
#pragma unroll
    for (int i = 0; i < Shape::D / 8; ++i) {
      const int column = 8 * i + tile::accumulator_column(thread);
      if (column < args.columns) to[column] = scale * out[4 * i + 2 * h];
      if (column + 1 < args.columns) to[column + 1] = scale * out[4 * i + 2 * h + 1];
    }
  }
}

template <class Shape>
__device__ __forceinline__ void consume_gradient(const SplitGradientArguments& args, GradientStorage<Shape>& shared,
                                                 int warpgroup) {
  constexpr int N = Shape::walked, D = Shape::D, M = Shape::rows;
  constexpr Element element = Shape::element;
  const DeviceProblem& problem = args.walk.problem;
  const int thread = threadIdx.x % 128, group = problem.heads / problem.kv_heads;
  Ring<1> owned;
  Ring<Shape::stages> ring;
  for (;;) {
    arch::wait(shared.owned_full, owned.parity);
    const GradientItem& item = shared.item;
    if (arch::uniform(item.head) < 0) return;
    const OwnedRows rows = owned_rows<Shape>(problem, item, warpgroup);
    float out[D / 2];
#pragma unroll
    for (float& x : out) x = 0.0f;
    for (int g = 0; g < walked_heads<Shape>(problem); ++g) {
      const int head = Shape::of_queries ? item.head : item.head * group + g, kv_head = head / group;
      const int64_t of_query = int64_t{item.sequence} * problem.heads + head;
      const int64_t of_key = int64_t{item.sequence} * problem.kv_heads + kv_head;
      const int q_exponent = part_exponent(args.q_peaks[of_query]), k_exponent = part_exponent(args.k_peaks[of_key]);
      const int grad_exponent = part_exponent(args.grad_peaks[of_query]);
      const float c = ldexpf(problem.scale_log2 * problem.scale_sign, -(q_exponent + k_exponent));
      const float of_y = ldexpf(1.0f, -(grad_exponent + part_exponent(args.v_peaks[of_key])));
      const float of_out = power_of_two(Shape::of_queries           ? -k_exponent
                                        : Shape::role == Role::of_k ? -q_exponent
                                                                    : -grad_exponent);
      const auto statistics_of = accumulator_statistics(args.walk, shared, ring, head, rows.row);
#pragma unroll 1
      for (int j = arch::uniform(item.tile_begin); j < arch::uniform(item.tile_end); ++j) {
        float x[N / 2], y[Shape::twice ? N / 2 : 1], inverse[2];
        uint32_t high[N / 4], low[N / 4];
        arch::wait(shared.full[ring.slot], ring.parity);
        const auto of_owned = [&](int i, int part) { return tile::operand(shared.owned[i][part].address(), M, 64 * warpgroup); };
        const auto of_walked = [&](int i, int part) { return tile::operand(shared.walked[ring.slot][i][part].address(), N); };
        const auto scores_under_way = tile::issue(
            [&] {
              tile::multiply_transposed<element, N, D, M, N, true>(x, of_owned(0, 1), of_walked(0, 0));
              tile::multiply_transposed<element, N, D, M, N, false>(x, of_owned(0, 0), of_walked(0, 1));
              tile::multiply_transposed<element, N, D, M, N, false>(x, of_owned(0, 0), of_walked(0, 0));
            },
            x);
        if constexpr (Shape::twice) {
          const auto gradients_under_way = tile::issue(
              [&] {
                tile::multiply_transposed<element, N, D, M, N, true>(y, of_owned(1, 1), of_walked(1, 0));
                tile::multiply_transposed<element, N, D, M, N, false>(y, of_owned(1, 0), of_walked(1, 1));
                tile::multiply_transposed<element, N, D, M, N, false>(y, of_owned(1, 0), of_walked(1, 0));
              },
              y);
          scores_under_way.template wait<1>();
          if (rows.edge(j)) mask_scores<N>(x, rows.of, j * N, thread);
#pragma unroll
          for (int i = 0; i < N / 2; ++i)
            x[i] = x[i] == kMinusInfinity ? 0.0f : arch::exp2(fmaf(x[i], c, -statistics_of(i).lse2));
          gradients_under_way.wait();
#pragma unroll
          for (int i = 0; i < N / 2; ++i) x[i] = x[i] == 0.0f ? 0.0f : x[i] * fmaf(y[i], of_y, -statistics_of(i).delta);
        } else {
          scores_under_way.wait();
          if (rows.edge(j)) mask_scores<N>(x, rows.of, j * N, thread);
#pragma unroll
          for (int i = 0; i < N / 2; ++i)
            x[i] = x[i] == kMinusInfinity ? 0.0f : arch::exp2(fmaf(x[i], c, -statistics_of(i).lse2));
        }
        scale_to_halves<N>(x, inverse);
        split_tile<N>(x, high, low);
        float sums[D / 2];
        tile::settle(high, low);
        constexpr int kWith = Shape::role == Role::of_v ? 1 : 0;
        const auto multiply = [&] {
          tile::multiply<element, D, N, true>(sums, low, of_walked(kWith, 0));
          tile::multiply<element, D, N, false>(sums, high, of_walked(kWith, 1));
          tile::multiply<element, D, N, false>(sums, high, of_walked(kWith, 0));
        };
        tile::issue(multiply, sums, high, low).wait();
        arch::release_tile(shared.empty[ring.slot]);
        inverse[0] *= of_out;
        inverse[1] *= of_out;
#pragma unroll
        for (int i = 0; i < D / 2; ++i) out[i] = fmaf(sums[i], inverse[(i >> 1) & 1], out[i]);
        ring.advance();
      }
    }
    store_gradient<Shape>(args, item, warpgroup, out);
    arch::release(shared.owned_empty);
    owned.advance();
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) split_gradients(const __grid_constant__ SplitGradientArguments args) {
  walk_gradient<Shape>(args.walk,
                       [&](GradientStorage<Shape>& shared, int warpgroup) { consume_gradient<Shape>(args, shared, warpgroup); });
}

}  // namespace deckle::kernels::cuda::attention
