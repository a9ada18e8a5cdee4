// What every attention kernel of the GPU asks of its arguments, whichever path serves them. Each check returns the reason of a
// refusal, naming what was given and what would be served, or nothing.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/cuda/attention/work_list.cuh"

namespace deckle::kernels::cuda::attention {

/// Sizes, offsets, and the tensors q, k, v and out.
std::string problem_why_not(const CudaAttentionProblem& problem);

/// The same, and lse, grad_out and the gradients: all of them are read or written.
std::string backward_why_not(const AttentionBackward& arguments);

/// Whether scores are more than scale q k, masked by ranges or bytes, or dropped.
bool has_features(const CudaAttentionProblem& problem);

/// Whether 8 columns of each of a plane's rows are 16 bytes side by side.
bool reads_wide(const CudaAttentionPlane& plane);

/// Why kernels refuse so many tiles, each `heads` times: they count them in 31 bits, and a launch's blocks draw beyond the last.
std::string tiles_why_not(const AttentionSizes& sizes, Side side, int height, int64_t heads);

/// Where dropout's blocks of 16 x 16 begin.
std::string dropout_why_not(const AttentionDropout& dropout);

/// Soft cap, slopes, dropout, bias, table, masks of ranges and bytes: what the Hopper kernels do not serve and the portable ones
/// do.
std::string features_why_not(const CudaAttentionProblem& problem);

/// Whether the workspace is there, aligned and large enough: asked at launch only, so that a problem can be checked before memory
/// is taken.
std::string workspace_why_not(const CudaAttentionProblem& problem, int64_t bytes_needed);

/// Empty if `memory` is there and aligned to 256 bytes.
std::string memory_why_not(const char* name, const void* memory);

/// Whether the device (-1: the current one) exists and has a major compute capability in [lowest, highest]. Where there is no
/// device at all, nothing is refused.
std::string device_why_not(int device, int lowest, int highest);

/// Empty if a block of the device (-1: the current one) may have so many bytes of shared memory, or there is no device.
std::string shared_memory_of_device_why_not(int bytes, int device);
std::string shared_memory_why_not(int bytes, int available);

/// Empty if the stream is one of the current device.
std::string stream_why_not(cudaStream_t stream);

/// Throws std::runtime_error "who: reason" unless the reason is empty.
void refuse_if(const std::string& reason, const char* who);

}  // namespace deckle::kernels::cuda::attention
