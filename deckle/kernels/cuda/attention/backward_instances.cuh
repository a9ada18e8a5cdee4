// Describes an instance of the backward kernels to the host.
#pragma once

#include "deckle/kernels/cuda/attention/backward_kernels.h"
#include "deckle/kernels/cuda/attention/backward_keys.cuh"
#include "deckle/kernels/cuda/attention/backward_keys_split.cuh"
#include "deckle/kernels/cuda/attention/backward_queries.cuh"
#include "deckle/kernels/cuda/attention/backward_short.cuh"
#include "deckle/kernels/cuda/attention/backward_unordered.cuh"

namespace deckle::kernels::cuda::attention {

template <class Shape, class Arguments>
BackwardKernel describe(void (*kernel)(Arguments), int owned_rows, int walked_rows) {
  return {reinterpret_cast<const void*>(kernel), Shape::threads, Shape::shared_bytes, owned_rows, walked_rows};
}

template <class Shape>
BackwardKernel keys() {
  return describe<Shape>(&key_gradients<Shape>, Shape::N, Shape::M);
}

template <class Shape>
BackwardKernel keys_split() {
  return describe<Shape>(&key_gradients_split<Shape>, Shape::N, Shape::M);
}

template <class Shape>
BackwardKernel all() {
  return describe<Shape>(&all_gradients<Shape>, Shape::N, Shape::M);
}

template <class Shape>
BackwardKernel queries() {
  return describe<Shape>(&query_gradients<Shape>, Shape::M, Shape::N);
}

template <class Shape>
BackwardKernel short_sequences() {
  return describe<Shape>(&short_gradients<Shape>, kShortRows, kShortRows);
}

}  // namespace deckle::kernels::cuda::attention
