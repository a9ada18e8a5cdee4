#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "deckle/base/device.h"

namespace deckle::cuda {

/// Throws what a call of the CUDA runtime reported, in one sentence; `what` says what was tried.
void check_call(cudaError_t status, const char* what);

/// After a library or a kernel's own code reported something: throws what the runtime says of this thread's GPU, which may be the
/// cause and that the process must end. Returns if it says nothing.
void check_runtime(const char* what);

/// After a launch: throws if it failed. With DECKLE_CUDA_SYNC=1 waits for the kernel, so that its errors carry the op's name,
/// unless this thread records a graph.
void check_launch(Device device);

cudaStream_t stream_handle(Device device);

/// What a kernel finds wrong with the values it was given.
enum FaultKind : int32_t { no_fault, index_out_of_range, matrix_singular, matrix_not_positive, no_probability };

/// Where kernels say so: words that the host reads at the next synchronisation.
struct IndexFault {
  int32_t happened;  // a FaultKind
  int32_t taken;     // by the thread that writes the others: of many reports the first is told
  int64_t index;     // or the number of the matrix, or of the element
  int64_t size;      // or the pivot, or the order of the minor, or the bits of the element, a double
};
IndexFault* index_fault(Device device);

/// Throws if a kernel reported something since the last call; the stream must be idle.
void check_index_fault(Device device);

}  // namespace deckle::cuda
