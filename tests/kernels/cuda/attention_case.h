// One attention problem on the device with random data: what the tests of forward and backward share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "deckle/kernels/args/attention_cuda.h"
#include "tests/kernels/cuda/attention_reference.h"

namespace deckle::testing {

inline void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// Device memory, filled with 0xff bytes: NaN in every float type, so what a kernel fails to write is seen.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(int64_t bytes = 0) : bytes_(bytes) {
    if (bytes == 0) return;
    check(cudaMalloc(&data_, bytes), "cudaMalloc");
    poison();
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~DeviceBuffer() { cudaFree(data_); }

  void poison() { check(cudaMemset(data_, 0xff, bytes_), "cudaMemset"); }

  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

  template <class T>
  std::vector<T> download() const {
    std::vector<T> host(bytes_ / sizeof(T));
    if (bytes_ > 0) check(cudaMemcpy(host.data(), data_, bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return host;
  }

  template <class T>
  void upload(const std::vector<T>& host) {
    check(cudaMemcpy(data_, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }

  int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

/// How rows, heads and batch lie in memory.
enum class Layout { rows_outer, heads_outer, padded_rows };

struct CaseOptions {
  kernels::AttentionElement element = kernels::AttentionElement::bf16;
  int head_dim = 128, value_dim = 128;
  int batch = 1, heads = 2, kv_heads = 2;
  int queries = 128, keys = 128;               // dense
  std::vector<int> query_lengths, key_lengths;  // ragged, if not empty
  kernels::AttentionMask mask;
  float scale = 0.0f;  // 0: 1 / sqrt(head_dim)
  Layout layout = Layout::rows_outer;
  float magnitude = 1.0f;  // of q and k
  uint64_t seed = 1;

  bool ragged() const { return !query_lengths.empty(); }
};

std::string describe(const CaseOptions& options);

/// A tensor of the case and the memory that holds it.
struct CaseTensor {
  DeviceBuffer buffer;
  kernels::AttentionTensor tensor;
  int64_t batch = 0, rows = 0, heads = 0, columns = 0;  // batch 1 if ragged

  /// All elements in [batch, row, head, column] order.
  std::vector<double> values(kernels::AttentionElement element) const;
  /// Their bits.
  std::vector<uint16_t> bits() const;
};

class AttentionCase {
 public:
  explicit AttentionCase(const CaseOptions& options);

  CaseTensor make_tensor(bool key_side, int columns) const;
  void fill(const CaseTensor& tensor, uint64_t stream, float magnitude) const;

  /// Overwrites the rows of one sequence with a value, e.g. NaN.
  void overwrite_sequence(CaseTensor& tensor, bool key_side, int sequence, float value) const;

  CaseOptions options;
  kernels::AttentionProblem problem;
  CaseTensor q, k, v, out;
  DeviceBuffer lse, workspace;
  DeviceBuffer query_offsets, key_offsets;
  std::vector<int64_t> query_offsets_host, key_offsets_host;

  int64_t lse_count() const { return static_cast<int64_t>(options.heads) * q.rows * q.batch; }
};

/// ‖a - b‖ / ‖b‖ over float64, comparing only where `b` is finite; NaN or a mismatch of infinities gives infinity.
double relative_error(const std::vector<double>& a, const std::vector<double>& b);

/// Relative error allowed for outputs: a few roundings of the element type.
double output_tolerance(kernels::AttentionElement element);
double gradient_tolerance(kernels::AttentionElement element);

}  // namespace deckle::testing
