// The tile shapes and schedules of each head dim, as measured on an H200 (the ladders in backward_keys.cuh and
// backward_queries.cuh), and what their kernels look like to the host.
#pragma once

#include "deckle/kernels/cuda/attention/backward_all.cuh"
#include "deckle/kernels/cuda/attention/backward_kernels.h"
#include "deckle/kernels/cuda/attention/backward_keys.cuh"
#include "deckle/kernels/cuda/attention/backward_keys_split.cuh"
#include "deckle/kernels/cuda/attention/backward_queries.cuh"
#include "deckle/kernels/cuda/attention/backward_score_product.cuh"
#include "deckle/kernels/cuda/attention/backward_short.cuh"

namespace deckle::kernels::cuda::attention {

template <Element element, int D, int Dv>
struct BackwardChoice;

// clang-format off
//               Keys:                                D   queries, warpgroups, stages, k and v buffers, overlap
//               Queries:                             D   Dv  keys, warpgroups, q buffers, k stages, v stages, ahead, dQ leaves
template <Element e>
struct BackwardChoice<e, 64, 64> {
  using Keys =    KeyGradients<e,                     64,     128, 2, 3, 2, Overlap::others>;
  using Queries = QueryGradients<e,                   64, 64, 128, 2, 2, 3, 3, Ahead::gradient_first, Leaves::through_q>;
};
template <Element e>
struct BackwardChoice<e, 128, 128> {
  using Keys =    KeyGradients<e,                    128,      64, 2, 3, 2, Overlap::own>;
  using Queries = QueryGradients<e,                  128, 128, 96, 2, 1, 3, 2, Ahead::scores_first, Leaves::apart>;
};
//               Keys:                                D   Dv  stages, k and v buffers
template <Element e>
struct BackwardChoice<e, 192, 128> {
  using Keys =    KeyGradientsSplit<e,               192, 128, 3, 2>;
  using Queries = QueryGradients<e,                  192, 128, 80, 2, 1, 3, 2, Ahead::scores_first, Leaves::through_q>;
};
template <Element e>
struct BackwardChoice<e, 192, 192> {
  using Keys =    KeyGradientsSplit<e,               192, 192, 3, 1>;
  using Queries = QueryGradients<e,                  192, 192, 80, 2, 1, 2, 2, Ahead::gradient_first, Leaves::through_q>;
};
template <Element e>
struct BackwardChoice<e, 256, 256> {
  using Keys =    KeyGradientsSplit<e,               256, 256, 2, 1>;
  using Queries = QueryGradients<e,                  256, 256, 64, 2, 1, 2, 1, Ahead::gradient_first, Leaves::through_q>;
};
// clang-format on

/// Of short sequences.
template <Element element, int D, int Dv>
struct BackwardShortChoice;

template <Element element>
struct BackwardShortChoice<element, 64, 64> : ShortGradients<element, 64> {};

/// All gradients in one pass: D, queries, order.
template <Element element, int D, int Dv>
struct BackwardAllChoice;

template <Element element>
struct BackwardAllChoice<element, 64, 64> : AllGradients<element, 64, 128, Order::apart> {};

template <Element element>
struct BackwardAllChoice<element, 128, 128> : AllGradients<element, 128, 64, Order::meeting> {};

/// The same with dropout, soft cap and slopes, and with a bias.
template <Element element, int D, bool biased>
struct BackwardScoredChoice;

template <Element element, bool biased>
struct BackwardScoredChoice<element, 64, biased>
    : AllGradients<element, 64, 128, biased ? Order::apart : Order::meeting, !biased, biased> {};

template <Element element, bool biased>
struct BackwardScoredChoice<element, 128, biased> : AllGradients<element, 128, 64, Order::meeting, !biased, biased> {};

/// dQ as one product: D, stages.
template <Element element, int D>
struct BackwardProductChoice;

template <Element element>
struct BackwardProductChoice<element, 256> : ScoreProduct<element, 256, 3> {};

template <class Shape, class Arguments>
BackwardKernel describe(void (*kernel)(Arguments), int owned_rows, int walked_rows) {
  return {reinterpret_cast<const void*>(kernel), Shape::threads, Shape::shared_bytes, owned_rows, walked_rows};
}

template <Element element, int D, int Dv>
BackwardKernels backward_kernels() {
  using Keys = typename BackwardChoice<element, D, Dv>::Keys;
  using Queries = typename BackwardChoice<element, D, Dv>::Queries;
  BackwardKernels kernels;
  if constexpr (D > 128) {
    kernels.key_gradients = describe<Keys>(&key_gradients_split<Keys>, Keys::N, Keys::M);
  } else {
    kernels.key_gradients = describe<Keys>(&key_gradients<Keys>, Keys::N, Keys::M);
  }
  kernels.query_gradients = describe<Queries>(&query_gradients<Queries>, Queries::M, Queries::N);
  return kernels;
}

template <Element element, int D, int Dv>
BackwardKernels backward_short_kernels() {
  using Shape = BackwardShortChoice<element, D, Dv>;
  return {.short_gradients = describe<Shape>(&short_gradients<Shape>, kShortRows, kShortRows)};
}

template <Element element, int D, int Dv>
BackwardKernels backward_all_kernels() {
  using Shape = BackwardAllChoice<element, D, Dv>;
  return {.all_gradients = describe<Shape>(&all_gradients<Shape>, Shape::N, Shape::M)};
}

template <Element element, int D, int Dv>
BackwardKernels backward_scored_kernels() {
  using Scored = BackwardScoredChoice<element, D, false>;
  using Biased = BackwardScoredChoice<element, D, true>;
  return {.scored_gradients = describe<Scored>(&all_gradients<Scored>, Scored::N, Scored::M),
          .biased_gradients = describe<Biased>(&all_gradients<Biased>, Biased::N, Biased::M)};
}

template <Element element, int D, int Dv>
BackwardKernels backward_product_kernels() {
  using Shape = BackwardProductChoice<element, D>;
  return {.score_product = describe<Shape>(&query_gradients_of_scores<Shape>, Shape::M, Shape::N)};
}

}  // namespace deckle::kernels::cuda::attention
