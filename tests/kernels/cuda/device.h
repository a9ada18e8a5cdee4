// What the tests need of the device: memory that shows what was not written, and which GPU there is.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace deckle::testing {

inline void check(cudaError_t error, const char* what = "CUDA") {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// Ten times the major compute capability of the current device plus the minor one; 0 where there is no device.
inline int compute_capability() {
  int device = 0, major = 0, minor = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess) return 0;
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
  return 10 * major + minor;
}

/// Device memory, filled with 0xff bytes: NaN in every float type, so what a kernel fails to write is seen.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(int64_t bytes = 0) : bytes_(bytes) {
    if (bytes == 0) return;
    check(cudaMalloc(&data_, bytes), "cudaMalloc");
    poison();
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer() { cudaFree(data_); }

  void poison() {
    if (bytes_ > 0) check(cudaMemset(data_, 0xff, bytes_), "cudaMemset");
  }

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

  template <class T>
  std::vector<T> download() const {
    std::vector<T> host(bytes_ / sizeof(T));
    if (!host.empty()) check(cudaMemcpy(host.data(), data_, host.size() * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return host;
  }

  template <class T>
  void upload(const std::vector<T>& host) {
    if (!host.empty()) check(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }

  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace deckle::testing
