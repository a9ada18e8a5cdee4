#pragma once

#include <atomic>
#include <cstdint>

#include "deckle/kernels/args/attention_candidates.h"

namespace deckle::kernels {

inline constexpr int kAttentionKernels = static_cast<int>(AttentionKernel::general) + 1;

/// How often each family of kernels has run each pass since the process began, by [AttentionPass][AttentionKernel]. A plan says
/// who is asked; on a GPU, who is asked may leave a problem to others for what only the operands in memory tell.
inline std::atomic<int64_t> attention_served[kAttentionPasses][kAttentionKernels];

inline void count_served(AttentionPass pass, AttentionKernel kernel) {
  ++attention_served[static_cast<int>(pass)][static_cast<int>(kernel)];
}

}  // namespace deckle::kernels
