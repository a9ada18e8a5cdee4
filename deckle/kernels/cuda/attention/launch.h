// What every launch needs from the device and the runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::kernels::cuda::attention {

/// Dynamic shared memory a block may have on Hopper.
inline constexpr int kMaxSharedBytes = 232448;

/// Makes a device the current one while it lives; -1: the current one stays.
class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = -1;
};

/// Throws std::runtime_error "what: the runtime's message" unless the call succeeded.
void check(cudaError_t error, const char* what);

/// Multiprocessors of the current device; of an H200 where there is none, so that a workspace can be asked for.
int multiprocessors();

/// Multiprocessors for which work is cut, where a cut decides the order of sums: those of an H200, whatever the device, so that
/// results do not depend on it.
inline constexpr int kPlannedMultiprocessors = 132;

/// Raises the kernel's dynamic shared memory limit, once per kernel and device.
void allow_shared_memory(const void* kernel, int bytes);

/// Launches a kernel and throws as check does. Not kernel<<<>>>, whose errors arrive through cudaGetLastError together with those
/// of anybody before.
template <class... Parameters, class... Arguments>
void launch_kernel(const char* what, void (*kernel)(Parameters...), dim3 grid, dim3 block, int shared_bytes, cudaStream_t stream,
                   Arguments&&... arguments) {
  std::tuple<std::remove_const_t<Parameters>...> values(std::forward<Arguments>(arguments)...);
  std::apply(
      [&](auto&... value) {
        void* pointers[] = {&value...};
        check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid, block, pointers, shared_bytes, stream), what);
      },
      values);
}

/// How many (sequence, head) pairs are worked on together. Where all tiles cost the same, one after the other: fewest keys and
/// values are live in L2. Otherwise as many as fit the part of L2 worth planning for, `row_bytes` a row and kv head, so that the
/// longest tiles can come first.
int heads_together(const AttentionSizes& sizes, bool equal_costs, int64_t row_bytes);

}  // namespace deckle::kernels::cuda::attention
