// The compiled kernels of the backward, as the host needs them to launch.
#pragma once

#include <cstdint>
#include <span>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda::attention {

/// Counters of turns lie so many ints apart, each in a line of memory of its own.
inline constexpr int kTurnStride = 32;

/// Rows of a tile of short_gradients.
inline constexpr int kShortRows = 64;

/// Warps of a block of all_gradients that own keys.
inline constexpr int kKeyWarps = 8;

struct BackwardKernel {
  const void* function = nullptr;
  int threads = 0;
  int shared_bytes = 0;
  int owned_rows = 0;   // height of the tile a block owns
  int walked_rows = 0;  // height of the tiles it walks
};

struct BackwardKernels {
  BackwardKernel key_gradients, query_gradients;
  BackwardKernel short_gradients, all_gradients;      // none for some head dims
  BackwardKernel scored_gradients, biased_gradients;  // all gradients, with dropout, soft cap, slopes; with a bias
  BackwardKernel score_product;                       // dQ where key_gradients leaves dS; none for some head dims
};

/// The kernels that one line of ops/instances.yaml adds for its element type and head dims.
struct BackwardInstance {
  AttentionElement element;
  int32_t head_dim, value_dim;
  BackwardKernels kernels;
};

/// Generated from ops/instances.yaml: `backward` (the two deterministic kernels), `backward_short`, `backward_all`,
/// `backward_scored`, `backward_product`.
std::span<const BackwardInstance> backward_instances();

}  // namespace deckle::kernels::cuda::attention
