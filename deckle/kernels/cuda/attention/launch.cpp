#include "deckle/kernels/cuda/attention/launch.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

namespace deckle::kernels::cuda::attention {
namespace {

// Of 60 MB, half behind the other partition.
constexpr int64_t kCacheBudget = int64_t{32} << 20;

int current_device() {
  int device = 0;
  check(cudaGetDevice(&device), "attention: no current device");
  return device;
}

}  // namespace

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // it is told here, and no later launch's
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

OnDevice::OnDevice(int device) {
  int devices = 0;
  if (device < 0 || cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    if (device >= 0) cudaGetLastError();  // this one is ours
    return;
  }
  const int current = current_device();
  if (current == device) return;
  check(cudaSetDevice(device), "attention: the problem's device");
  before_ = current;
}

OnDevice::~OnDevice() {
  if (before_ >= 0) cudaSetDevice(before_);
}

int multiprocessors() {
  int devices = 0, count = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    cudaGetLastError();  // this one is ours
    return kPlannedMultiprocessors;
  }
  check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, current_device()), "attention: multiprocessor count");
  return count;
}

void allow_shared_memory(const void* kernel, int bytes) {
  static std::mutex mutex;
  static std::set<std::pair<const void*, int>> done;
  const std::lock_guard lock(mutex);
  const auto key = std::pair(kernel, current_device());
  if (done.contains(key)) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "attention: shared memory");
  done.insert(key);
}

int heads_together(const AttentionSizes& sizes, bool equal_costs, int64_t row_bytes) {
  if (equal_costs) return 1;
  const int64_t bytes = std::max<int64_t>(1, sizes.key_rows * row_bytes * sizes.kv_heads / sizes.heads);
  return static_cast<int>(std::clamp<int64_t>(kCacheBudget / bytes, 1, int64_t{sizes.batch} * sizes.heads));
}

}  // namespace deckle::kernels::cuda::attention
