#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "tests/kernels/cuda/attention_reference.h"

namespace deckle::testing {
namespace {

using kernels::AttentionBackward;
using kernels::AttentionElement;
using kernels::AttentionSizes;
using kernels::AttentionTensor;
using kernels::AttentionWindow;
using kernels::CudaAttentionPlane;
using kernels::CudaAttentionProblem;

constexpr int kThreads = 128;

__device__ double load(AttentionElement element, const AttentionTensor& t, int64_t batch, int64_t row, int64_t head, int column) {
  const int64_t index = batch * t.batch_stride + row * t.row_stride + head * t.head_stride + column;
  return element == AttentionElement::bf16
             ? static_cast<double>(__bfloat162float(static_cast<const __nv_bfloat16*>(t.data)[index]))
             : static_cast<double>(__half2float(static_cast<const __half*>(t.data)[index]));
}

// Where a sequence's rows lie: row i is at (batch, start + i).
struct Rows {
  int64_t sequence, batch, start, length;
};

__device__ Rows rows_of(const AttentionSizes& sizes, bool queries, int64_t sequence) {
  const int64_t* offsets = queries ? sizes.query_offsets : sizes.key_offsets;
  if (offsets == nullptr) return {sequence, sequence, 0, queries ? sizes.query_rows : sizes.key_rows};
  const bool lengths = !queries && sizes.key_lengths != nullptr;
  return {sequence, 0, offsets[sequence], lengths ? sizes.key_lengths[sequence] : offsets[sequence + 1] - offsets[sequence]};
}

// Where a plane has the element of (row, key) of a head.
__device__ int64_t plane_index(const CudaAttentionPlane& p, const Rows& q, const Rows& k, int64_t row, int64_t key,
                               int64_t head) {
  if (p.offsets == nullptr)
    return q.sequence * p.sequence_stride + head * p.head_stride + row * p.row_stride + key * p.column_stride;
  const int64_t rows = p.row_stride == 0 ? 1 : q.length, columns = p.column_stride == 0 ? 1 : k.length;
  return p.offsets[q.sequence] + ((p.head_stride == 0 ? 0 : head) * rows + (p.row_stride == 0 ? 0 : row)) * columns +
         (p.column_stride == 0 ? 0 : key);
}

__device__ bool attends(const CudaAttentionProblem& p, const Rows& q, const Rows& k, int64_t row, int64_t key, int64_t head) {
  const int64_t center = row + (p.mask.bottom_right ? k.length - q.length : 0);
  if (key < center - p.mask.left || key > center + p.mask.right) return false;
  if (p.forbidden.data != nullptr &&
      static_cast<const uint8_t*>(p.forbidden.data)[plane_index(p.forbidden, q, k, row, key, head)] == 0)
    return false;
  if (p.ranges.bounds == nullptr) return true;
  const int64_t packed = q.batch * p.sizes.query_rows + q.start + row;
  for (int r = 0; r < p.ranges.count; ++r) {
    const int32_t* range = p.ranges.bounds + 2 * (packed * p.ranges.count + r);
    if (key >= range[0] && key < range[1]) return true;
  }
  return false;
}

__device__ double distance(const CudaAttentionProblem& p, const Rows& q, const Rows& k, int64_t row, int64_t key) {
  return fabs(static_cast<double>(row + (p.mask.bottom_right ? k.length - q.length : 0) - key));
}

__device__ int64_t table_index(const CudaAttentionProblem& p, const Rows& q, const Rows& k, int64_t row, int64_t key,
                               int64_t head) {
  const int64_t position = row + (p.mask.bottom_right ? k.length - q.length : 0), reach = p.table_reach;
  const int64_t d = key - position < -reach ? -reach : key - position > reach ? reach : key - position;
  return head * (2 * reach + 1) + reach + d;
}

// `cap_slope`: by what a gradient of the score is multiplied before it reaches scale q k.
__device__ double score(const CudaAttentionProblem& p, const Rows& q, const Rows& k, int64_t row, int64_t key, int64_t head,
                        double* cap_slope = nullptr) {
  const int64_t kv_head = head / (p.sizes.heads / p.sizes.kv_heads);
  double sum = 0;
  for (int d = 0; d < p.sizes.head_dim; ++d) {
    sum += load(p.element, p.q, q.batch, q.start + row, head, d) * load(p.element, p.k, k.batch, k.start + key, kv_head, d);
  }
  sum *= static_cast<double>(p.scale);
  const auto bias = [&](bool wanted) -> double {
    if (p.bias.data == nullptr || !wanted) return 0;
    const int64_t at = plane_index(p.bias, q, k, row, key, head);
    return p.element == AttentionElement::bf16
               ? static_cast<double>(__bfloat162float(static_cast<const __nv_bfloat16*>(p.bias.data)[at]))
               : static_cast<double>(__half2float(static_cast<const __half*>(p.bias.data)[at]));
  };
  sum += bias(p.bias_before_cap);
  if (p.soft_cap != 0) {
    const double w = tanh(sum / p.soft_cap);
    if (cap_slope != nullptr) *cap_slope = 1 - w * w;
    sum = p.soft_cap * w;
  }
  sum += bias(!p.bias_before_cap);
  if (p.table != nullptr) sum += p.table[table_index(p, q, k, row, key, head)];
  return p.slopes != nullptr ? sum - p.slopes[head] * distance(p, q, k, row, key) : sum;
}

__device__ double score(const ReferenceForward& forward, const CudaAttentionProblem& p, const Rows& q, const Rows& k, int64_t row,
                        int64_t key, int64_t head, double* cap_slope = nullptr) {
  const double exact = score(p, q, k, row, key, head, cap_slope);
  return forward.rounds_scores ? static_cast<double>(static_cast<float>(exact)) : exact;
}

// Dropout's factor of one weight.
__device__ double kept(const CudaAttentionProblem& p, const ReferenceForward& forward, int64_t sequence, const Rows& q,
                       const Rows& k, int64_t row, int64_t key, int64_t head) {
  if (forward.keep == nullptr) return 1;
  const bool keeps = forward.keep[forward.keep_starts[sequence] + (head * q.length + row) * k.length + key];
  return keeps ? 256.0 / (256 - p.dropout.threshold) : 0;
}

__device__ int64_t lse_at(const AttentionSizes& sizes, int64_t sequence, const Rows& q, int64_t row, int64_t head) {
  return ((sizes.query_offsets != nullptr ? q.start : sequence * sizes.query_rows) + row) * sizes.heads + head;
}

__device__ int64_t packed(const Rows& r, int64_t row, int64_t rows, int64_t heads, int64_t head, int64_t columns) {
  return ((r.batch * rows + r.start + row) * heads + head) * columns;
}

// The sequence and row of the block's item; false past the end.
__device__ bool locate(const AttentionSizes& sizes, bool queries, int64_t index, int64_t& sequence, int64_t& row) {
  const int64_t* offsets = queries ? sizes.query_offsets : sizes.key_offsets;
  const int64_t rows = queries ? sizes.query_rows : sizes.key_rows;
  if (offsets == nullptr) {
    sequence = index / rows;
    row = index % rows;
    return true;
  }
  if (index >= offsets[sizes.batch]) return false;
  sequence = 0;
  while (offsets[sequence + 1] <= index) ++sequence;
  row = index - offsets[sequence];
  return true;
}

__device__ double block_reduce(double x, bool maximum) {
  __shared__ double values[kThreads];
  values[threadIdx.x] = x;
  __syncthreads();
  double result = values[0];
  for (int i = 1; i < kThreads; ++i) result = maximum ? fmax(result, values[i]) : result + values[i];
  __syncthreads();
  return result;
}

// A bias of -inf forbids a key, and may forbid all of a row's.
__device__ double weight_of(double score, double from) { return score == -INFINITY ? 0 : exp(score - from); }

// A block is one (row, head).
__global__ void forward_row(CudaAttentionProblem p, ReferenceForward result) {
  int64_t sequence, row;
  const int64_t head = blockIdx.y;
  if (!locate(p.sizes, true, blockIdx.x, sequence, row)) return;
  const Rows q = rows_of(p.sizes, true, sequence), k = rows_of(p.sizes, false, sequence);
  const int64_t kv_head = head / (p.sizes.heads / p.sizes.kv_heads);
  double maximum = -INFINITY;
  for (int64_t key = threadIdx.x; key < k.length; key += kThreads) {
    if (attends(p, q, k, row, key, head)) maximum = fmax(maximum, score(result, p, q, k, row, key, head));
  }
  maximum = block_reduce(maximum, true);
  if (p.sinks != nullptr) maximum = fmax(maximum, static_cast<double>(p.sinks[head]));
  __shared__ double weights[kThreads];
  double sum = 0, out[2] = {0, 0};
  for (int64_t first = 0; first < k.length; first += kThreads) {
    const int64_t key = first + threadIdx.x;
    double weight = 0;
    if (key < k.length && attends(p, q, k, row, key, head)) weight = weight_of(score(result, p, q, k, row, key, head), maximum);
    weights[threadIdx.x] = weight != 0 ? weight * kept(p, result, sequence, q, k, row, key, head) : 0;
    sum += weight;
    __syncthreads();
    const int64_t count = k.length - first < kThreads ? k.length - first : kThreads;
    for (int part = 0; part < 2; ++part) {
      const int column = threadIdx.x + part * kThreads;
      if (column >= p.sizes.value_dim) continue;
      for (int64_t i = 0; i < count; ++i) {
        if (weights[i] != 0) out[part] += weights[i] * load(p.element, p.v, k.batch, k.start + first + i, kv_head, column);
      }
    }
    __syncthreads();
  }
  sum = block_reduce(sum, false);
  if (p.sinks != nullptr) sum += exp(p.sinks[head] - maximum);
  for (int part = 0; part < 2; ++part) {
    const int column = threadIdx.x + part * kThreads;
    if (column >= p.sizes.value_dim) continue;
    result.out[packed(q, row, p.sizes.query_rows, p.sizes.heads, head, p.sizes.value_dim) + column] =
        sum > 0 ? out[part] / sum : 0;
  }
  if (threadIdx.x == 0) result.lse[lse_at(p.sizes, sequence, q, row, head)] = sum > 0 ? maximum + log(sum) : -INFINITY;
}

// Of one (row, key).
struct ScoreGradient {
  double x;      // cap' p(dp - delta + grad_lse), what reaches scale q k
  double y;      // p as dropout leaves it
  double z;      // x without cap'
  double terms;  // p(|dp| + |delta - grad_lse|): a kernel rounds both, also where they cancel
};

__device__ ScoreGradient score_gradient(const AttentionBackward& a, const ReferenceForward& forward, int64_t sequence,
                                        const Rows& q, const Rows& k, int64_t row, int64_t key, int64_t head) {
  const CudaAttentionProblem& p = a.problem;
  const int64_t at = lse_at(p.sizes, sequence, q, row, head), kv_head = head / (p.sizes.heads / p.sizes.kv_heads);
  double cap_slope = 1;
  const double weight = weight_of(score(forward, p, q, k, row, key, head, &cap_slope), forward.lse[at]);
  const double keep = kept(p, forward, sequence, q, k, row, key, head);
  const double* out = forward.out + packed(q, row, p.sizes.query_rows, p.sizes.heads, head, p.sizes.value_dim);
  double sum = 0, dp = 0;
  for (int d = 0; d < p.sizes.value_dim; ++d) {
    const double grad = load(p.element, a.grad_out, q.batch, q.start + row, head, d);
    const double value = keep * load(p.element, p.v, k.batch, k.start + key, kv_head, d);
    sum += grad * (value - out[d]);
    dp += grad * value;
  }
  if (a.grad_lse != nullptr) sum += a.grad_lse[at];
  return {cap_slope * weight * sum, keep * weight, weight * sum, weight * (fabs(dp) + fabs(sum - dp))};
}

__global__ void backward_query(AttentionBackward a, ReferenceForward forward, double* grad_q) {
  const CudaAttentionProblem& p = a.problem;
  int64_t sequence, row;
  const int64_t head = blockIdx.y;
  if (!locate(p.sizes, true, blockIdx.x, sequence, row)) return;
  const Rows q = rows_of(p.sizes, true, sequence), k = rows_of(p.sizes, false, sequence);
  const int64_t kv_head = head / (p.sizes.heads / p.sizes.kv_heads);
  __shared__ double values[kThreads];
  double grad[2] = {0, 0};
  for (int64_t first = 0; first < k.length; first += kThreads) {
    const int64_t key = first + threadIdx.x;
    const bool valid = key < k.length && attends(p, q, k, row, key, head);
    values[threadIdx.x] = valid ? score_gradient(a, forward, sequence, q, k, row, key, head).x : 0;
    __syncthreads();
    const int64_t count = k.length - first < kThreads ? k.length - first : kThreads;
    for (int part = 0; part < 2; ++part) {
      const int column = threadIdx.x + part * kThreads;
      if (column >= p.sizes.head_dim) continue;
      for (int64_t i = 0; i < count; ++i) {
        if (values[i] != 0) grad[part] += values[i] * load(p.element, p.k, k.batch, k.start + first + i, kv_head, column);
      }
    }
    __syncthreads();
  }
  for (int part = 0; part < 2; ++part) {
    const int column = threadIdx.x + part * kThreads;
    if (column >= p.sizes.head_dim) continue;
    grad_q[packed(q, row, p.sizes.query_rows, p.sizes.heads, head, p.sizes.head_dim) + column] = grad[part] * p.scale;
  }
}

// A block is one (key, kv head).
__global__ void backward_key(AttentionBackward a, ReferenceForward forward, double* grad_k, double* grad_v) {
  const CudaAttentionProblem& p = a.problem;
  int64_t sequence, key;
  const int64_t kv_head = blockIdx.y;
  if (!locate(p.sizes, false, blockIdx.x, sequence, key)) return;
  const Rows q = rows_of(p.sizes, true, sequence), k = rows_of(p.sizes, false, sequence);
  const int64_t group = key < k.length ? p.sizes.heads / p.sizes.kv_heads : 0;  // a spare row: zeros
  __shared__ ScoreGradient values[kThreads];
  double key_grad[2] = {0, 0}, value_grad[2] = {0, 0};
  for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (int64_t first = 0; first < q.length; first += kThreads) {
      const int64_t row = first + threadIdx.x;
      const bool valid = row < q.length && attends(p, q, k, row, key, head);
      values[threadIdx.x] = valid ? score_gradient(a, forward, sequence, q, k, row, key, head) : ScoreGradient{0, 0, 0, 0};
      __syncthreads();
      const int64_t count = q.length - first < kThreads ? q.length - first : kThreads;
      for (int part = 0; part < 2; ++part) {
        const int column = threadIdx.x + part * kThreads;
        for (int64_t i = 0; i < count; ++i) {
          if (values[i].x == 0 && values[i].y == 0) continue;
          if (column < p.sizes.head_dim)
            key_grad[part] += values[i].x * load(p.element, p.q, q.batch, q.start + first + i, head, column);
          if (column < p.sizes.value_dim) {
            value_grad[part] += values[i].y * load(p.element, a.grad_out, q.batch, q.start + first + i, head, column);
          }
        }
      }
      __syncthreads();
    }
  }
  for (int part = 0; part < 2; ++part) {
    const int column = threadIdx.x + part * kThreads;
    if (column < p.sizes.head_dim) {
      grad_k[packed(k, key, p.sizes.key_rows, p.sizes.kv_heads, kv_head, p.sizes.head_dim) + column] = key_grad[part] * p.scale;
    }
    if (column < p.sizes.value_dim) {
      grad_v[packed(k, key, p.sizes.key_rows, p.sizes.kv_heads, kv_head, p.sizes.value_dim) + column] = value_grad[part];
    }
  }
}

// A block is one (row, head): its terms of the head's slope gradient, and their magnitudes.
__global__ void backward_slopes(AttentionBackward a, ReferenceForward forward, double* grad_slopes) {
  const CudaAttentionProblem& p = a.problem;
  int64_t sequence, row;
  const int64_t head = blockIdx.y;
  if (!locate(p.sizes, true, blockIdx.x, sequence, row)) return;
  const Rows q = rows_of(p.sizes, true, sequence), k = rows_of(p.sizes, false, sequence);
  double sum = 0, magnitude = 0;
  for (int64_t key = threadIdx.x; key < k.length; key += kThreads) {
    if (!attends(p, q, k, row, key, head)) continue;
    const ScoreGradient gradient = score_gradient(a, forward, sequence, q, k, row, key, head);
    const double far = distance(p, q, k, row, key);
    sum -= gradient.z * far;
    magnitude += gradient.terms * fabs(far);
  }
  sum = block_reduce(sum, false);
  magnitude = block_reduce(magnitude, false);
  if (threadIdx.x != 0) return;
  atomicAdd(grad_slopes + head, sum);
  atomicAdd(grad_slopes + p.sizes.heads + head, magnitude);
}

// A block is one (row, head): its terms of the gradients of the bias and of the table, and behind each the terms' magnitudes.
__global__ void backward_planes(AttentionBackward a, ReferenceForward forward, double* grad_bias, int64_t bias_elements,
                                double* grad_table) {
  const CudaAttentionProblem& p = a.problem;
  int64_t sequence, row;
  const int64_t head = blockIdx.y;
  if (!locate(p.sizes, true, blockIdx.x, sequence, row)) return;
  const Rows q = rows_of(p.sizes, true, sequence), k = rows_of(p.sizes, false, sequence);
  for (int64_t key = threadIdx.x; key < k.length; key += kThreads) {
    if (!attends(p, q, k, row, key, head)) continue;
    const ScoreGradient gradient = score_gradient(a, forward, sequence, q, k, row, key, head);
    if (p.bias.data != nullptr) {
      const int64_t at = plane_index(a.grad_bias, q, k, row, key, head);
      atomicAdd(grad_bias + at, p.bias_before_cap ? gradient.x : gradient.z);
      atomicAdd(grad_bias + bias_elements + at, gradient.terms);
    }
    if (p.table != nullptr) {
      const int64_t at = table_index(p, q, k, row, key, head);
      atomicAdd(grad_table + at, gradient.z);
      atomicAdd(grad_table + p.sizes.heads * (2 * p.table_reach + 1) + at, gradient.terms);
    }
  }
}

// A block is one head.
__global__ void backward_sinks(AttentionBackward a, ReferenceForward forward, double* grad_sinks) {
  const CudaAttentionProblem& p = a.problem;
  const int64_t head = blockIdx.x;
  const int64_t rows = p.sizes.query_rows * (p.sizes.query_offsets != nullptr ? 1 : p.sizes.batch);
  double sum = 0, magnitude = 0;
  for (int64_t i = threadIdx.x; i < rows; i += kThreads) {
    int64_t sequence, row;
    if (!locate(p.sizes, true, i, sequence, row)) continue;
    const Rows q = rows_of(p.sizes, true, sequence);
    const int64_t at = lse_at(p.sizes, sequence, q, row, head);
    const double* out = forward.out + packed(q, row, p.sizes.query_rows, p.sizes.heads, head, p.sizes.value_dim);
    double delta = a.grad_lse != nullptr ? -a.grad_lse[at] : 0, terms = fabs(delta);
    for (int d = 0; d < p.sizes.value_dim; ++d) {
      if (out[d] == 0) continue;
      const double term = out[d] * load(p.element, a.grad_out, q.batch, q.start + row, head, d);
      delta += term;
      terms += fabs(term);
    }
    const double weight = exp(p.sinks[head] - forward.lse[at]);
    sum -= weight * delta;
    magnitude += weight * terms;
  }
  sum = block_reduce(sum, false);
  magnitude = block_reduce(magnitude, false);
  if (threadIdx.x == 0) {
    grad_sinks[head] = sum;
    grad_sinks[p.sizes.heads + head] = magnitude;
  }
}

// A block is one (row, head).
__global__ void store_row(CudaAttentionProblem p, ReferenceForward forward) {
  int64_t sequence, row;
  const int64_t head = blockIdx.y;
  if (!locate(p.sizes, true, blockIdx.x, sequence, row)) return;
  const Rows q = rows_of(p.sizes, true, sequence);
  const double* out = forward.out + packed(q, row, p.sizes.query_rows, p.sizes.heads, head, p.sizes.value_dim);
  const int64_t first = q.batch * p.out.batch_stride + (q.start + row) * p.out.row_stride + head * p.out.head_stride;
  for (int column = threadIdx.x; column < p.sizes.value_dim; column += kThreads) {
    if (p.element == AttentionElement::bf16) {
      static_cast<__nv_bfloat16*>(p.out.data)[first + column] = __double2bfloat16(out[column]);
    } else {
      static_cast<__half*>(p.out.data)[first + column] = __double2half(out[column]);
    }
  }
  const int64_t at = lse_at(p.sizes, sequence, q, row, head);
  if (threadIdx.x == 0) p.lse[at] = static_cast<float>(forward.lse[at]);
}

__global__ void load_row(CudaAttentionProblem p, ReferenceForward forward) {
  int64_t sequence, row;
  const int64_t head = blockIdx.y;
  if (!locate(p.sizes, true, blockIdx.x, sequence, row)) return;
  const Rows q = rows_of(p.sizes, true, sequence);
  double* out = forward.out + packed(q, row, p.sizes.query_rows, p.sizes.heads, head, p.sizes.value_dim);
  for (int column = threadIdx.x; column < p.sizes.value_dim; column += kThreads) {
    out[column] = load(p.element, p.out, q.batch, q.start + row, head, column);
  }
  const int64_t at = lse_at(p.sizes, sequence, q, row, head);
  if (threadIdx.x == 0) forward.lse[at] = p.lse[at];
}

unsigned items(const AttentionSizes& sizes, bool queries) {
  const int64_t rows = queries ? sizes.query_rows : sizes.key_rows;
  return static_cast<unsigned>(sizes.ragged() ? rows : rows * sizes.batch);
}

}  // namespace

void reference_forward(const CudaAttentionProblem& problem, ReferenceForward result) {
  const dim3 grid(items(problem.sizes, true), problem.sizes.heads);
  if (grid.x > 0) forward_row<<<grid, kThreads>>>(problem, result);
}

void reference_backward(const AttentionBackward& arguments, ReferenceForward forward, ReferenceBackward result) {
  const AttentionSizes& sizes = arguments.problem.sizes;
  const dim3 query_grid(items(sizes, true), sizes.heads), key_grid(items(sizes, false), sizes.kv_heads);
  if (query_grid.x > 0) backward_query<<<query_grid, kThreads>>>(arguments, forward, result.grad_q);
  if (key_grid.x > 0) backward_key<<<key_grid, kThreads>>>(arguments, forward, result.grad_k, result.grad_v);
  if (arguments.problem.slopes != nullptr) {
    cudaMemset(result.grad_slopes, 0, 2 * sizeof(double) * sizes.heads);
    if (query_grid.x > 0) backward_slopes<<<query_grid, kThreads>>>(arguments, forward, result.grad_slopes);
  }
  cudaMemset(result.grad_bias, 0, 2 * sizeof(double) * result.bias_elements);
  cudaMemset(result.grad_table, 0, 2 * sizeof(double) * sizes.heads * (2 * arguments.problem.table_reach + 1));
  if ((arguments.problem.bias.data != nullptr || arguments.problem.table != nullptr) && query_grid.x > 0)
    backward_planes<<<query_grid, kThreads>>>(arguments, forward, result.grad_bias, result.bias_elements, result.grad_table);
  if (arguments.problem.sinks != nullptr) backward_sinks<<<sizes.heads, kThreads>>>(arguments, forward, result.grad_sinks);
}

void store_forward(const CudaAttentionProblem& problem, ReferenceForward forward) {
  const dim3 grid(items(problem.sizes, true), problem.sizes.heads);
  if (grid.x > 0) store_row<<<grid, kThreads>>>(problem, forward);
}

void load_forward(const CudaAttentionProblem& problem, ReferenceForward forward) {
  const dim3 grid(items(problem.sizes, true), problem.sizes.heads);
  if (grid.x > 0) load_row<<<grid, kThreads>>>(problem, forward);
}

}  // namespace deckle::testing
