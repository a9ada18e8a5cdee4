#pragma once

// A second kernel that is there before the first one ends: it waits inside for what the first one writes, and a launch's latency
// is hidden (programmatic dependence, from compute capability 9.0 on). The first calls arch::launch_dependents, the other
// arch::wait_for_dependencies before it reads anything.
#include <array>
#include <atomic>
#include <cstdint>

#include "deckle/base/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/cuda/arch/warp.cuh"

namespace deckle::kernels::cuda::reduce {

// Of one architecture alone, the oldest, a file has code without the instructions, which nothing would tell.
#ifdef DECKLE_CUDA_EACH_ARCHITECTURE
inline constexpr bool kEachArchitecture = true;
#else
inline constexpr bool kEachArchitecture = false;
#endif

/// Whether the code of `kernel` that this device runs has their instructions.
template <class... Parameters>
bool waits_inside(void (*kernel)(Parameters...), Device device) {
  static std::array<std::atomic<int8_t>, 64> known{};  // 1: no, 2: yes; one answer for all kernels of a file
  std::atomic<int8_t>& answer = known[static_cast<size_t>(device.index)];
  if (answer.load(std::memory_order_relaxed) == 0) {
    cudaFuncAttributes of{};
    deckle::cuda::check_call(cudaFuncGetAttributes(&of, reinterpret_cast<const void*>(kernel)), "a kernel");
    answer.store(of.ptxVersion >= 90 ? 2 : 1, std::memory_order_relaxed);
  }
  return answer.load(std::memory_order_relaxed) == 2;
}

/// Launches such a kernel behind the first.
template <class... Parameters, class... Arguments>
void launch_behind(void (*kernel)(Parameters...), unsigned blocks, unsigned threads, Device device, cudaStream_t stream,
                   const Arguments&... arguments) {
  static_assert(kEachArchitecture || sizeof...(Parameters) == 0,
                "compile this file for each architecture (the flags of cmake/modules.cmake, which finds it by its text)");
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = waits_inside(kernel, device) ? 1 : 0;
  deckle::cuda::check_call(cudaLaunchKernelEx(&config, kernel, arguments...), "a kernel");
}

}  // namespace deckle::kernels::cuda::reduce
