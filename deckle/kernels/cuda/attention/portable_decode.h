// Few query rows on many keys: the keys of a sequence are divided among blocks. What memory limits, on any GPU since sm_80.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda {

/// Why attention_decode would refuse the problem; empty: it would not. Query rows times heads of a key head are at most 32, and
/// scores are scale q k, masked by intervals.
std::string attention_decode_why_not(const CudaAttentionProblem& problem);

/// Shared memory of a block.
int attention_decode_shared_bytes(const CudaAttentionProblem& problem);

int64_t attention_decode_workspace_bytes(const CudaAttentionProblem& problem);

/// The forward. Bit-equal from run to run: parts are added up in their order, and their number follows from the sizes alone.
void attention_decode(const CudaAttentionProblem& problem, cudaStream_t stream);

}  // namespace deckle::kernels::cuda
