#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "tests/kernels/cuda/attention_backward_reference.h"

namespace deckle::testing {
namespace {

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(status));
}

__device__ double read(AttentionElement element, const AttentionTensor& t, int64_t batch, int64_t row, int64_t head, int d) {
  const int64_t index = batch * t.batch_stride + row * t.row_stride + head * t.head_stride + d;
  return element == AttentionElement::bf16
             ? static_cast<double>(__bfloat162float(static_cast<const __nv_bfloat16*>(t.data)[index]))
             : static_cast<double>(__half2float(static_cast<const __half*>(t.data)[index]));
}

__device__ void write(AttentionElement element, const AttentionTensor& t, int64_t batch, int64_t row, int64_t head, int d,
                      double value) {
  const int64_t index = batch * t.batch_stride + row * t.row_stride + head * t.head_stride + d;
  if (element == AttentionElement::bf16) {
    static_cast<__nv_bfloat16*>(t.data)[index] = __double2bfloat16(value);
  } else {
    static_cast<__half*>(t.data)[index] = __double2half(value);
  }
}

struct Place {
  int64_t batch, q0, k0;  // batch coordinate and first rows as the tensors are indexed
  int64_t M, N;
  int64_t q_packed, k_packed;  // first rows as packed
};

__device__ Place place(const AttentionBackward& a, int sequence) {
  const auto& s = a.problem.sizes;
  if (s.query_offsets == nullptr) {
    return {sequence, 0, 0, s.query_rows, s.key_rows, sequence * s.query_rows, sequence * s.key_rows};
  }
  const int64_t q = s.query_offsets[sequence], k = s.key_offsets[sequence];
  return {0, q, k, s.query_offsets[sequence + 1] - q, s.key_offsets[sequence + 1] - k, q, k};
}

__device__ bool allowed(const AttentionBackward& a, const Place& p, int64_t i, int64_t j) {
  const auto& mask = a.problem.mask;
  const int64_t c = i + (mask.bottom_right ? p.N - p.M : 0);
  const bool left = mask.left >= kernels::kUnboundedWindow || j >= c - mask.left;
  const bool right = mask.right >= kernels::kUnboundedWindow || j <= c + mask.right;
  return left && right;
}

__device__ int64_t lse_index(const AttentionBackward& a, const Place& p, int64_t row, int64_t head) {
  const auto& s = a.problem.sizes;
  return s.query_offsets == nullptr ? (p.batch * s.heads + head) * s.query_rows + row : head * s.query_rows + p.q0 + row;
}

__device__ double block_reduce(double value, bool maximum) {
  __shared__ double parts[128];
  parts[threadIdx.x] = value;
  __syncthreads();
  double result = parts[0];
  for (int i = 1; i < 128; ++i) result = maximum ? fmax(result, parts[i]) : result + parts[i];
  __syncthreads();
  return result;
}

// grid (row, head, sequence); shared: N weights and N score gradients
__global__ void __launch_bounds__(128) reference_rows(AttentionBackward a, ReferenceGradients gradients, double* scratch) {
  extern __shared__ double weights[];
  const auto& s = a.problem.sizes;
  const Place p = place(a, blockIdx.z);
  const int64_t i = blockIdx.x;
  if (i >= p.M) return;
  const int head = blockIdx.y, kv = head / (s.heads / s.kv_heads), t = threadIdx.x;
  const AttentionElement e = a.problem.element;
  double* ds = weights + p.N;
  double largest = -INFINITY;
  for (int64_t j = t; j < p.N; j += 128) {
    double score = -INFINITY;
    if (allowed(a, p, i, j)) {
      score = 0;
      for (int d = 0; d < s.head_dim; ++d)
        score += read(e, a.problem.q, p.batch, p.q0 + i, head, d) * read(e, a.problem.k, p.batch, p.k0 + j, kv, d);
      score *= static_cast<double>(a.problem.scale);
    }
    weights[j] = score;
    largest = fmax(largest, score);
  }
  largest = block_reduce(largest, true);
  const bool dead = largest == -INFINITY;
  double sum = 0;
  for (int64_t j = t; j < p.N; j += 128) {
    weights[j] = dead ? 0 : exp(weights[j] - largest);
    sum += weights[j];
  }
  sum = block_reduce(sum, false);
  double d0 = 0;
  for (int64_t j = t; j < p.N; j += 128) {
    weights[j] = dead ? 0 : weights[j] / sum;
    double dp = 0;
    if (weights[j] != 0) {
      for (int d = 0; d < s.value_dim; ++d)
        dp += read(e, a.grad_out, p.batch, p.q0 + i, head, d) * read(e, a.problem.v, p.batch, p.k0 + j, kv, d);
    }
    ds[j] = dp;
    d0 += weights[j] * dp;
  }
  d0 = block_reduce(d0, false);
  const int64_t li = lse_index(a, p, i, head);
  const double delta = d0 - (a.grad_lse != nullptr && !dead ? a.grad_lse[li] : 0.0);
  for (int64_t j = t; j < p.N; j += 128) ds[j] = weights[j] * (ds[j] - delta);
  __syncthreads();
  for (int d = t; d < s.value_dim; d += 128) {
    double out = 0;
    for (int64_t j = 0; j < p.N; ++j) {
      if (weights[j] != 0) out += weights[j] * read(e, a.problem.v, p.batch, p.k0 + j, kv, d);
    }
    write(e, a.problem.out, p.batch, p.q0 + i, head, d, out);
  }
  const int64_t row = (p.q_packed + i) * s.heads + head;
  for (int d = t; d < s.head_dim; d += 128) {
    double dq = 0;
    for (int64_t j = 0; j < p.N; ++j) {
      if (weights[j] != 0) dq += ds[j] * read(e, a.problem.k, p.batch, p.k0 + j, kv, d);
    }
    gradients.q[row * s.head_dim + d] = dq * a.problem.scale;
  }
  if (t == 0) {
    const double lse = dead ? -INFINITY : largest + log(sum);
    a.problem.lse[li] = static_cast<float>(lse);
    scratch[2 * row] = lse;
    scratch[2 * row + 1] = delta;
  }
}

// grid (key, kv head, sequence); shared: M weights and M score gradients
__global__ void __launch_bounds__(128) reference_keys(AttentionBackward a, ReferenceGradients gradients, const double* scratch) {
  extern __shared__ double weights[];
  const auto& s = a.problem.sizes;
  const Place p = place(a, blockIdx.z);
  const int64_t j = blockIdx.x;
  if (j >= p.N) return;
  const int kv = blockIdx.y, group = s.heads / s.kv_heads, t = threadIdx.x;
  const AttentionElement e = a.problem.element;
  double* ds = weights + p.M;
  double dk[2] = {}, dv[2] = {};
  for (int head = kv * group; head < (kv + 1) * group; ++head) {
    for (int64_t i = t; i < p.M; i += 128) {
      double score = 0, dp = 0;
      const int64_t row = (p.q_packed + i) * s.heads + head;
      const bool use = allowed(a, p, i, j) && scratch[2 * row] != -INFINITY;
      if (use) {
        for (int d = 0; d < s.head_dim; ++d)
          score += read(e, a.problem.q, p.batch, p.q0 + i, head, d) * read(e, a.problem.k, p.batch, p.k0 + j, kv, d);
        for (int d = 0; d < s.value_dim; ++d)
          dp += read(e, a.grad_out, p.batch, p.q0 + i, head, d) * read(e, a.problem.v, p.batch, p.k0 + j, kv, d);
      }
      weights[i] = use ? exp(score * static_cast<double>(a.problem.scale) - scratch[2 * row]) : 0;
      ds[i] = use ? weights[i] * (dp - scratch[2 * row + 1]) : 0;
    }
    __syncthreads();
    for (int part = 0; part < 2; ++part) {
      const int d = t + 128 * part;
      for (int64_t i = 0; i < p.M; ++i) {
        if (weights[i] == 0) continue;
        if (d < s.head_dim) dk[part] += ds[i] * read(e, a.problem.q, p.batch, p.q0 + i, head, d);
        if (d < s.value_dim) dv[part] += weights[i] * read(e, a.grad_out, p.batch, p.q0 + i, head, d);
      }
    }
    __syncthreads();
  }
  const int64_t row = (p.k_packed + j) * s.kv_heads + kv;
  for (int part = 0; part < 2; ++part) {
    const int d = t + 128 * part;
    if (d < s.head_dim) gradients.k[row * s.head_dim + d] = dk[part] * a.problem.scale;
    if (d < s.value_dim) gradients.v[row * s.value_dim + d] = dv[part];
  }
}

__device__ uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

__device__ float normal(uint64_t seed, uint64_t index) {
  const uint64_t bits = mix(seed * 0x2545f4914f6cdd1dull + index);
  const float u = (static_cast<uint32_t>(bits >> 40) + 1) / 16777217.0f,
              angle = static_cast<uint32_t>(bits & 0xffffff) / 16777216.0f;
  return sqrtf(-2.0f * logf(u)) * cospif(2.0f * angle);
}

__global__ void fill_normal_kernel(AttentionElement element, AttentionTensor t, int64_t rows, int64_t rows_per_batch, int heads,
                                   int dim, uint64_t seed, float scale) {
  const int64_t count = rows * heads * dim;
  for (int64_t i = blockIdx.x * int64_t{256} + threadIdx.x; i < count; i += gridDim.x * int64_t{256}) {
    const int64_t row = i / (int64_t{heads} * dim);
    write(element, t, row / rows_per_batch, row % rows_per_batch, i / dim % heads, static_cast<int>(i % dim),
          normal(seed, i) * scale);
  }
}

__global__ void fill_floats(float* data, int64_t count, uint64_t seed, float scale) {
  for (int64_t i = blockIdx.x * int64_t{256} + threadIdx.x; i < count; i += gridDim.x * int64_t{256})
    data[i] = normal(seed, i) * scale;
}

__global__ void fill_nan_kernel(AttentionTensor t, int64_t first, int64_t count, int heads, int dim) {
  const int64_t total = count * heads * dim;
  for (int64_t i = blockIdx.x * int64_t{256} + threadIdx.x; i < total; i += gridDim.x * int64_t{256}) {
    const int64_t row = first + i / (int64_t{heads} * dim);
    static_cast<uint16_t*>(t.data)[row * t.row_stride + i / dim % heads * t.head_stride + i % dim] = 0x7fff;
  }
}

__global__ void compare_kernel(AttentionElement element, AttentionTensor t, const double* reference, int64_t rows,
                               int64_t rows_per_batch, int heads, int dim, double* sums, unsigned long long* maxima) {
  const int64_t count = rows * heads * dim;
  double error = 0, norm = 0, worst = 0, largest = 0;
  unsigned long long bad = 0;
  for (int64_t i = blockIdx.x * int64_t{256} + threadIdx.x; i < count; i += gridDim.x * int64_t{256}) {
    const int64_t row = i / (int64_t{heads} * dim);
    const double got = read(element, t, row / rows_per_batch, row % rows_per_batch, i / dim % heads, static_cast<int>(i % dim));
    const double e = fabs(got - reference[i]);
    bad += !isfinite(got);
    error += e * e;
    norm += reference[i] * reference[i];
    worst = fmax(worst, e);
    largest = fmax(largest, fabs(reference[i]));
  }
  atomicAdd(sums, error);
  atomicAdd(sums + 1, norm);
  atomicMax(maxima, static_cast<unsigned long long>(__double_as_longlong(worst)));
  atomicMax(maxima + 1, static_cast<unsigned long long>(__double_as_longlong(largest)));
  atomicAdd(maxima + 2, bad);
}

__global__ void count_words_kernel(const uint16_t* data, int64_t count, uint16_t word, unsigned long long* result) {
  unsigned long long n = 0;
  for (int64_t i = blockIdx.x * int64_t{256} + threadIdx.x; i < count; i += gridDim.x * int64_t{256}) n += data[i] == word;
  atomicAdd(result, n);
}

__global__ void count_different_kernel(AttentionTensor a, AttentionTensor b, int64_t first, int64_t rows, int heads, int dim,
                                       unsigned long long* result) {
  unsigned long long n = 0;
  for (int64_t i = blockIdx.x * int64_t{256} + threadIdx.x; i < rows * heads * dim; i += gridDim.x * int64_t{256}) {
    const int64_t index = (first + i / (int64_t{heads} * dim)) * a.row_stride + i / dim % heads * a.head_stride + i % dim;
    n += static_cast<const uint16_t*>(a.data)[index] != static_cast<const uint16_t*>(b.data)[index];
  }
  atomicAdd(result, n);
}

// Five words of device memory for results.
struct Results {
  Results() {
    check(cudaMalloc(&data, 64));
    check(cudaMemset(data, 0, 64));
  }
  ~Results() { cudaFree(data); }
  void fetch(unsigned long long (&to)[8]) {
    check(cudaGetLastError());
    check(cudaMemcpy(to, data, 64, cudaMemcpyDeviceToHost));
  }
  unsigned long long* data;
};

constexpr int kGrid = 1056;

}  // namespace

void reference_attention(const AttentionBackward& problem, const ReferenceGradients& gradients, double* row_scratch) {
  const auto& s = problem.problem.sizes;
  const int shared = 200 * 1024;
  check(cudaFuncSetAttribute(reference_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  check(cudaFuncSetAttribute(reference_keys, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
  // Ragged: total rows bound every sequence.
  const int row_bytes = static_cast<int>(2 * 8 * (s.key_rows + 1)), key_bytes = static_cast<int>(2 * 8 * (s.query_rows + 1));
  if (row_bytes > shared || key_bytes > shared) throw std::runtime_error("reference: at most 12,000 rows");
  if (s.query_rows > 0) {
    reference_rows<<<dim3(s.query_rows, s.heads, s.batch), 128, row_bytes>>>(problem, gradients, row_scratch);
    check(cudaGetLastError());
  }
  if (s.key_rows > 0) {
    reference_keys<<<dim3(s.key_rows, s.kv_heads, s.batch), 128, key_bytes>>>(problem, gradients, row_scratch);
    check(cudaGetLastError());
  }
  check(cudaDeviceSynchronize());
}

void fill_normal(AttentionElement element, const AttentionTensor& tensor, int64_t rows, int64_t rows_per_batch, int heads,
                 int dim, uint64_t seed, float scale) {
  if (rows == 0) return;
  fill_normal_kernel<<<kGrid, 256>>>(element, tensor, rows, rows_per_batch, heads, dim, seed, scale);
  check(cudaGetLastError());
}

void fill_normal(float* data, int64_t count, uint64_t seed, float scale) {
  fill_floats<<<kGrid, 256>>>(data, count, seed, scale);
  check(cudaGetLastError());
}

void fill_nan(const AttentionTensor& tensor, int64_t first, int64_t count, int heads, int dim) {
  fill_nan_kernel<<<kGrid, 256>>>(tensor, first, count, heads, dim);
  check(cudaGetLastError());
}

Difference compare(AttentionElement element, const AttentionTensor& tensor, const double* reference, int64_t rows,
                   int64_t rows_per_batch, int heads, int dim) {
  if (rows == 0) return {};
  Results results;
  compare_kernel<<<kGrid, 256>>>(element, tensor, reference, rows, rows_per_batch, heads, dim,
                                 reinterpret_cast<double*>(results.data), results.data + 2);
  unsigned long long words[8];
  results.fetch(words);
  const double* values = reinterpret_cast<const double*>(words);
  return {values[0], values[1], values[2], values[3], words[4]};
}

unsigned long long count_words(const void* data, int64_t count, uint16_t word) {
  Results results;
  count_words_kernel<<<kGrid, 256>>>(static_cast<const uint16_t*>(data), count, word, results.data);
  unsigned long long words[8];
  results.fetch(words);
  return words[0];
}

unsigned long long count_different(const AttentionTensor& a, const AttentionTensor& b, int64_t first, int64_t rows, int heads,
                                   int dim) {
  Results results;
  count_different_kernel<<<kGrid, 256>>>(a, b, first, rows, heads, dim, results.data);
  unsigned long long words[8];
  results.fetch(words);
  return words[0];
}

}  // namespace deckle::testing
