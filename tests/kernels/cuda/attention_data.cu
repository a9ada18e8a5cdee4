#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "tests/kernels/cuda/attention_data.h"

namespace deckle::testing {
namespace {

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

__global__ void fill_words_kernel(AttentionTensor t, int64_t first, int64_t count, int heads, int dim, uint16_t word) {
  const int64_t total = count * heads * dim;
  for (int64_t i = blockIdx.x * int64_t{256} + threadIdx.x; i < total; i += gridDim.x * int64_t{256}) {
    const int64_t row = first + i / (int64_t{heads} * dim);
    static_cast<uint16_t*>(t.data)[row * t.row_stride + i / dim % heads * t.head_stride + i % dim] = word;
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

void fill_normal(AttentionElement element, const AttentionTensor& tensor, int64_t rows, int64_t rows_per_batch, int heads,
                 int dim, uint64_t seed, float scale) {
  if (rows == 0) return;
  fill_normal_kernel<<<kGrid, 256>>>(element, tensor, rows, rows_per_batch, heads, dim, seed, scale);
  check(cudaGetLastError());
}

void fill_normal(float* data, int64_t count, uint64_t seed, float scale) {
  if (count == 0) return;
  fill_floats<<<kGrid, 256>>>(data, count, seed, scale);
  check(cudaGetLastError());
}

void fill_words(const AttentionTensor& tensor, int64_t first, int64_t count, int heads, int dim, uint16_t word) {
  if (count == 0) return;
  fill_words_kernel<<<kGrid, 256>>>(tensor, first, count, heads, dim, word);
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
  if (count == 0) return 0;
  Results results;
  count_words_kernel<<<kGrid, 256>>>(static_cast<const uint16_t*>(data), count, word, results.data);
  unsigned long long words[8];
  results.fetch(words);
  return words[0];
}

unsigned long long count_different(const AttentionTensor& a, const AttentionTensor& b, int64_t first, int64_t rows, int heads,
                                   int dim) {
  if (rows == 0) return 0;
  Results results;
  count_different_kernel<<<kGrid, 256>>>(a, b, first, rows, heads, dim, results.data);
  unsigned long long words[8];
  results.fetch(words);
  return words[0];
}

}  // namespace deckle::testing
