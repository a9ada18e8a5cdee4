#include "deckle/kernels/cuda/attention/checks.h"

#include <cuda_runtime_api.h>

#include <initializer_list>
#include <stdexcept>
#include <utility>

#include "deckle/kernels/args/attention_limits.h"

namespace deckle::kernels::cuda::attention {
namespace {

struct NamedTensor {
  const char* name;
  const AttentionTensor& tensor;
  int64_t rows, heads;
};

std::string bad_tensor(const NamedTensor& t, const AttentionSizes& sizes) {
  struct Dim {
    const char* name;
    int64_t count, stride;
  };
  const Dim dims[] = {{"batch", sizes.ragged() ? 1 : sizes.batch, t.tensor.batch_stride},
                      {"row", t.rows, t.tensor.row_stride},
                      {"head", t.heads, t.tensor.head_stride}};
  for (const Dim& dim : dims) {
    if (dim.count == 0) return {};  // nothing is read or written, so it needs no memory
  }
  const std::string name = t.name;
  if (t.tensor.data == nullptr) return name + " is null";
  if (reinterpret_cast<uintptr_t>(t.tensor.data) % 16 != 0) return name + " is not aligned to 16 bytes";
  for (const Dim& dim : dims) {
    if (dim.count > 1 && (dim.stride <= 0 || dim.stride % 8 != 0)) {
      return "the " + std::string(dim.name) + " stride of " + name + " is " + std::to_string(dim.stride) +
             " (serves positive multiples of 8 where the dim has more than one element)";
    }
  }
  return {};
}

std::string plane_why_not(const char* name, const CudaAttentionPlane& plane, const AttentionSizes& sizes) {
  if (plane.data == nullptr) return {};
  if (plane.offsets != nullptr && !sizes.ragged()) return "the " + std::string(name) + " is ragged, the batch is not";
  for (const int64_t stride : {plane.sequence_stride, plane.head_stride, plane.row_stride, plane.column_stride}) {
    if (stride < 0) return "a stride of the " + std::string(name) + " is " + std::to_string(stride) + " (serves 0 and more)";
  }
  if (plane.offsets == nullptr && (plane.rows < 1 || plane.columns < 1))
    return "the " + std::string(name) + " is " + std::to_string(plane.rows) + " x " + std::to_string(plane.columns) +
           " (serves 1 and more)";
  return {};
}

std::string first_bad_tensor(const AttentionSizes& sizes, std::initializer_list<NamedTensor> tensors) {
  for (const NamedTensor& tensor : tensors) {
    if (std::string reason = bad_tensor(tensor, sizes); !reason.empty()) return reason;
  }
  return {};
}

}  // namespace

std::string problem_why_not(const CudaAttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  const std::pair<const char*, int64_t> counts[] = {
      {"batch", sizes.batch}, {"heads", sizes.heads}, {"query_rows", sizes.query_rows}, {"key_rows", sizes.key_rows}};
  for (const auto& [name, count] : counts) {
    if (count < 0) return std::string(name) + " is " + std::to_string(count) + " (serves 0 and more)";
  }
  if (sizes.kv_heads <= 0 || sizes.heads % sizes.kv_heads != 0) {
    return std::to_string(sizes.heads) + " heads are not a multiple of " + std::to_string(sizes.kv_heads) + " kv heads";
  }
  if (!(problem.soft_cap >= 0 && problem.soft_cap <= kMostSoftCap))
    return "the soft cap is " + std::to_string(problem.soft_cap) + " (serves 0, none, and up to " + std::to_string(kMostSoftCap) +
           ")";
  if (problem.dropout.threshold < 0 || problem.dropout.threshold > 256)
    return "the threshold of dropout is " + std::to_string(problem.dropout.threshold) + " (serves 0 to 256)";
  if (problem.table_reach < 0 || problem.table_reach > kMostRows)
    return "the reach of the table is " + std::to_string(problem.table_reach) + " (serves 0 to 2^30)";
  if (problem.ranges.bounds != nullptr && problem.ranges.count < 1)
    return "rows have " + std::to_string(problem.ranges.count) + " ranges of keys (serves 1 and more)";
  for (const auto& [name, plane] : {std::pair("bias", &problem.bias), {"mask", &problem.forbidden}}) {
    if (std::string reason = plane_why_not(name, *plane, sizes); !reason.empty()) return reason;
  }
  if (sizes.heads > kMostHeads) return std::to_string(sizes.heads) + " heads (serves up to " + std::to_string(kMostHeads) + ")";
  if ((sizes.query_offsets == nullptr) != (sizes.key_offsets == nullptr))
    return "offsets are given for one of queries and keys only";
  if (sizes.key_lengths != nullptr && !sizes.ragged())
    return "key lengths are given without offsets (serves them for ragged batches; a dense one is a ragged one of equal offsets)";
  for (const int64_t rows : {sizes.query_rows, sizes.key_rows}) {
    if (rows > kMostRows) return std::to_string(rows) + " rows (serves fewer than 2^30)";
  }
  const int64_t queries = sizes.query_rows, keys = sizes.key_rows;
  return first_bad_tensor(sizes, {{"q", problem.q, queries, sizes.heads},
                                  {"k", problem.k, keys, sizes.kv_heads},
                                  {"v", problem.v, keys, sizes.kv_heads},
                                  {"out", problem.out, queries, sizes.heads}});
}

bool reads_wide(const CudaAttentionPlane& plane) {
  return plane.offsets == nullptr && plane.column_stride == 1 && plane.columns % 8 == 0 &&
         reinterpret_cast<uintptr_t>(plane.data) % 16 == 0 && plane.row_stride % 8 == 0 && plane.head_stride % 8 == 0 &&
         plane.sequence_stride % 8 == 0;
}

bool has_features(const CudaAttentionProblem& problem) { return !features_why_not(problem).empty(); }

std::string features_why_not(const CudaAttentionProblem& problem) {
  const auto given = [](const char* what, const char* none) { return std::string(what) + " (serves " + none + ")"; };
  if (problem.soft_cap != 0) return given("there is a soft cap", "none");
  if (problem.slopes != nullptr) return given("slopes are given", "none");
  if (problem.bias.data != nullptr) return given("a bias is given", "none");
  if (problem.table != nullptr) return given("a table is given", "none");
  if (problem.ranges.bounds != nullptr || problem.forbidden.data != nullptr)
    return given("the mask has ranges or bytes", "causal masks and windows");
  return problem.dropout.threshold != 0 ? given("dropout is on", "none") : std::string();
}

std::string tiles_why_not(const AttentionSizes& sizes, Side side, int height, int64_t heads) {
  if (max_tiles(sizes, side, height) * heads < kMostTiles) return {};
  return "more than 2^31 tiles of " + std::to_string(height) + " rows and a head";
}

std::string dropout_why_not(const AttentionDropout& dropout) {
  for (const auto& [name, first] : {std::pair("row", dropout.first_row), {"column", dropout.first_column}}) {
    if (dropout.threshold != 0 && (first < 0 || first % 16 != 0))
      return "the first " + std::string(name) + " of dropout is " + std::to_string(first) + " (serves multiples of 16)";
  }
  return {};
}

std::string backward_why_not(const AttentionBackward& arguments) {
  const AttentionSizes& sizes = arguments.problem.sizes;
  if (std::string reason = problem_why_not(arguments.problem); !reason.empty()) return reason;
  const int64_t queries = sizes.query_rows, keys = sizes.key_rows;
  if (std::string reason = first_bad_tensor(sizes, {{"grad_out", arguments.grad_out, queries, sizes.heads},
                                                    {"grad_q", arguments.grad_q, queries, sizes.heads},
                                                    {"grad_k", arguments.grad_k, keys, sizes.kv_heads},
                                                    {"grad_v", arguments.grad_v, keys, sizes.kv_heads}});
      !reason.empty()) {
    return reason;
  }
  if (arguments.grad_bias.data != nullptr && arguments.problem.bias.data == nullptr)
    return "a gradient of the bias is asked for, no bias given";
  if (std::string reason = plane_why_not("gradient of the bias", arguments.grad_bias, sizes); !reason.empty()) return reason;
  if (arguments.problem.lse == nullptr && sizes.query_rows > 0) return "lse, which the forward wrote, is null";
  return {};
}

std::string workspace_why_not(const CudaAttentionProblem& problem, int64_t bytes_needed) {
  if (problem.workspace_bytes < bytes_needed) {
    return "a workspace of " + std::to_string(problem.workspace_bytes) + " bytes was given, " + std::to_string(bytes_needed) +
           " are needed";
  }
  if (bytes_needed > 0) {
    if (std::string reason = memory_why_not("workspace", problem.workspace); !reason.empty()) return reason;
  }
  return problem.plan != nullptr ? memory_why_not("plan", problem.plan) : std::string();
}

std::string memory_why_not(const char* name, const void* memory) {
  if (memory == nullptr) return "the " + std::string(name) + " is null";
  return reinterpret_cast<uintptr_t>(memory) % 256 != 0 ? "the " + std::string(name) + " is not aligned to 256 bytes"
                                                        : std::string();
}

std::string device_why_not(int device, int lowest, int highest) {
  int devices = 0, major = 0, minor = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || (device < 0 && cudaGetDevice(&device) != cudaSuccess)) {
    cudaGetLastError();  // this one is ours
    return {};
  }
  if (device >= devices) {
    return "device " + std::to_string(device) + " (there " + (devices == 1 ? "is 1)" : "are " + std::to_string(devices) + ")");
  }
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess) {
    cudaGetLastError();
    return {};
  }
  if (major >= lowest && major <= highest) return {};
  return "the device has compute capability " + std::to_string(major) + "." + std::to_string(minor) + " (serves " +
         std::to_string(lowest) + (lowest == highest ? ".x)" : ".0 and newer)");
}

std::string shared_memory_why_not(int bytes, int available) {
  if (bytes <= available) return {};
  return "a block takes " + std::to_string(bytes) + " bytes of shared memory (the device has " + std::to_string(available) + ")";
}

std::string shared_memory_of_device_why_not(int bytes, int device) {
  int available = 0;
  if ((device < 0 && cudaGetDevice(&device) != cudaSuccess) ||
      cudaDeviceGetAttribute(&available, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) != cudaSuccess) {
    cudaGetLastError();  // this one is ours
    return {};
  }
  return shared_memory_why_not(bytes, available);
}

std::string stream_why_not(cudaStream_t stream) {
#if CUDART_VERSION >= 12080
  int device = 0, of_stream = 0;
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) return {};  // those of the current device
  // What a graph is recorded from cannot be asked.
  cudaStreamCaptureStatus recorded = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &recorded) == cudaSuccess && recorded != cudaStreamCaptureStatusNone) return {};
  if (cudaGetDevice(&device) != cudaSuccess || cudaStreamGetDevice(stream, &of_stream) != cudaSuccess) {
    cudaGetLastError();  // this one is ours; a launch will say what is wrong with the stream
    return {};
  }
  if (device != of_stream) {
    return "the stream is one of device " + std::to_string(of_stream) + ", the problem lies on device " + std::to_string(device);
  }
#endif
  return {};
}

void refuse_if(const std::string& reason, const char* who) {
  if (!reason.empty()) throw std::runtime_error(std::string(who) + ": " + reason);
}

}  // namespace deckle::kernels::cuda::attention
