// The instances of the backward's two main kernels, one head dim a file (backward_d*.cu): what the host needs to launch them.
#pragma once

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda::attention {

struct BackwardKernel {
  const void* function = nullptr;
  int threads = 0;
  int shared_bytes = 0;
  int owned_rows = 0;   // height of the tile a block owns
  int walked_rows = 0;  // height of the tiles it walks
};

struct BackwardKernels {
  BackwardKernel key_gradients, query_gradients;
  BackwardKernel short_gradients;  // these two: none for some head dims
  BackwardKernel all_gradients;
  const void* convert_query_gradients = nullptr;  // with all_gradients
};

/// The two main kernels for the given head dims. Specialised for 64, 96, 128, 192, 256 with Dv = D, and 192/128.
template <int D, int Dv>
BackwardKernels backward_kernels(AttentionElement element);

template <>
BackwardKernels backward_kernels<64, 64>(AttentionElement element);
template <>
BackwardKernels backward_kernels<96, 96>(AttentionElement element);
template <>
BackwardKernels backward_kernels<128, 128>(AttentionElement element);
template <>
BackwardKernels backward_kernels<192, 128>(AttentionElement element);
template <>
BackwardKernels backward_kernels<192, 192>(AttentionElement element);
template <>
BackwardKernels backward_kernels<256, 256>(AttentionElement element);

}  // namespace deckle::kernels::cuda::attention
