#include "tests/kernels/cuda/pair_reference.h"

#include <cmath>

namespace deckle::testing {
namespace {

using kernels::CudaAttentionProblem;

constexpr int kThreads = 128;  // and as many columns at most

template <class T>
__device__ T reduce(T x, bool maximum) {
  __shared__ T values[kThreads];
  values[threadIdx.x] = x;
  __syncthreads();
  T result = values[0];
  for (int i = 1; i < kThreads; ++i) result = maximum ? (values[i] > result ? values[i] : result) : result + values[i];
  __syncthreads();
  return result;
}

template <class T>
__device__ T dot(const float* a, const float* b, int count) {
  T sum = 0;
  for (int d = 0; d < count; ++d) sum = fma(static_cast<T>(a[d]), static_cast<T>(b[d]), sum);
  return sum;
}

// A block is one (packed row, head).
template <class T>
__global__ void row_of_pairs(CudaAttentionProblem p, PairOperands x, PairResults<T> y) {
  const int64_t packed = blockIdx.x, head = blockIdx.y, H = p.sizes.heads, kv = p.sizes.kv_heads, kv_head = head / (H / kv);
  if (packed >= x.query_offsets[p.sizes.batch]) return;
  int sequence = 0;
  while (x.query_offsets[sequence + 1] <= packed) ++sequence;
  const int64_t row = packed - x.query_offsets[sequence], queries = x.query_offsets[sequence + 1] - x.query_offsets[sequence];
  const int64_t first_key = x.key_offsets[sequence];
  const int64_t keys = x.key_lengths != nullptr ? x.key_lengths[sequence] : x.key_offsets[sequence + 1] - first_key;
  const int64_t center = row + (p.mask.bottom_right ? keys - queries : 0);
  const int D = p.sizes.head_dim, Dv = p.sizes.value_dim, column = threadIdx.x;
  const int64_t begin = max(int64_t{0}, center - p.mask.left), end = min(keys, center + p.mask.right + 1);
  const float *q = x.q + (packed * H + head) * D, *tq = x.tq != nullptr ? x.tq + (packed * H + head) * D : nullptr;
  const float* grad_out = x.grad_out != nullptr ? x.grad_out + (packed * H + head) * Dv : nullptr;
  const T scale = p.scale;
  const auto of_key = [&](const float* data, int64_t key, int dim) { return data + ((first_key + key) * kv + kv_head) * dim; };
  const auto score = [&](int64_t key) { return scale * dot<T>(q, of_key(x.k, key, D), D); };
  const auto score_tangent = [&](int64_t key) {
    T sum = 0;
    if (tq != nullptr) sum += dot<T>(tq, of_key(x.k, key, D), D);
    if (x.tk != nullptr) sum += dot<T>(q, of_key(x.tk, key, D), D);
    return scale * sum;
  };
  T maximum = -INFINITY, sum = 0, moved_sum = 0;
  for (int64_t key = begin + threadIdx.x; key < end; key += kThreads) maximum = fmax(maximum, score(key));
  maximum = reduce(maximum, true);
  if (p.sinks != nullptr) maximum = fmax(maximum, static_cast<T>(p.sinks[head]));
  for (int64_t key = begin + threadIdx.x; key < end; key += kThreads) {
    const T weight = exp(score(key) - maximum);
    sum += weight;
    moved_sum += weight * score_tangent(key);
  }
  sum = reduce(sum, false);
  moved_sum = reduce(moved_sum, false);
  if (p.sinks != nullptr) sum += exp(static_cast<T>(p.sinks[head]) - maximum);
  const T share = sum > 0 ? 1 / sum : 0, mean = share * moved_sum;
  __shared__ T weights[kThreads], moves[kThreads], gradients[kThreads];
  const auto for_chunks = [&](auto fill, auto use) {
    for (int64_t first = begin; first < end; first += kThreads) {
      const int64_t key = first + threadIdx.x;
      if (key < end) fill(key);
      __syncthreads();
      for (int64_t i = first; i < min(end, first + kThreads); ++i) use(i, static_cast<int>(i - first));
      __syncthreads();
    }
  };
  T out = 0, tangent = 0;
  for_chunks(
      [&](int64_t key) {
        weights[threadIdx.x] = share * exp(score(key) - maximum);
        moves[threadIdx.x] = weights[threadIdx.x] * (score_tangent(key) - mean);
      },
      [&](int64_t key, int i) {
        if (column >= Dv) return;
        out = fma(weights[i], static_cast<T>(of_key(x.v, key, Dv)[column]), out);
        tangent = fma(moves[i], static_cast<T>(of_key(x.v, key, Dv)[column]), tangent);
        if (x.tv != nullptr) tangent = fma(weights[i], static_cast<T>(of_key(x.tv, key, Dv)[column]), tangent);
      });
  const int64_t at = (packed * H + head) * Dv + column;
  if (column < Dv && y.out != nullptr) y.out[at] = out;
  if (column < Dv && y.tangent != nullptr) y.tangent[at] = tangent;
  if (threadIdx.x == 0 && y.lse != nullptr) y.lse[packed * H + head] = sum > 0 ? maximum + log(sum) : -INFINITY;
  if (threadIdx.x == 0 && y.lse_tangent != nullptr) y.lse_tangent[packed * H + head] = mean;
  if (y.second_q != nullptr) {
    const float* grad_tangent = x.grad_out_tangent != nullptr ? x.grad_out_tangent + (packed * H + head) * Dv : nullptr;
    T delta = column < Dv ? static_cast<T>(grad_out[column]) * out : T(0),
      moved = column < Dv ? grad_out[column] * tangent : T(0);
    if (column < Dv && grad_tangent != nullptr) moved += grad_tangent[column] * out;
    delta = reduce(delta, false);
    moved = reduce(moved, false);
    if (x.grad_lse != nullptr) delta -= x.grad_lse[packed * H + head];
    if (x.grad_lse_tangent != nullptr) moved -= x.grad_lse_tangent[packed * H + head];
    __shared__ T first[kThreads], second[kThreads];
    T second_q = 0;
    for_chunks(
        [&](int64_t key) {
          const T weight = share * exp(score(key) - maximum), move = score_tangent(key) - mean;
          const T gradient = dot<T>(grad_out, of_key(x.v, key, Dv), Dv) - delta;
          T gradient_moves = -moved;
          if (grad_tangent != nullptr) gradient_moves += dot<T>(grad_tangent, of_key(x.v, key, Dv), Dv);
          if (x.tv != nullptr) gradient_moves += dot<T>(grad_out, of_key(x.tv, key, Dv), Dv);
          weights[threadIdx.x] = weight;
          moves[threadIdx.x] = weight * move;
          first[threadIdx.x] = weight * gradient;
          second[threadIdx.x] = weight * (move * gradient + gradient_moves);
        },
        [&](int64_t key, int i) {
          const int64_t to = (first_key + key) * kv + kv_head;
          if (column < D) {
            second_q = fma(second[i], static_cast<T>(of_key(x.k, key, D)[column]), second_q);
            if (x.tk != nullptr) second_q = fma(first[i], static_cast<T>(of_key(x.tk, key, D)[column]), second_q);
            T of_k = second[i] * q[column];
            if (tq != nullptr) of_k += first[i] * tq[column];
            atomicAdd(y.second_k + to * D + column, scale * of_k);
          }
          if (column < Dv) {
            T of_v = moves[i] * grad_out[column];
            if (grad_tangent != nullptr) of_v += weights[i] * grad_tangent[column];
            atomicAdd(y.second_v + to * Dv + column, of_v);
          }
        });
    if (column < D) y.second_q[(packed * H + head) * D + column] = scale * second_q;
  }
  if (y.grad_q == nullptr) return;
  T delta = reduce(column < Dv ? static_cast<T>(grad_out[column]) * out : T(0), false);
  if (x.grad_lse != nullptr) delta -= x.grad_lse[packed * H + head];
  T grad_q = 0;
  for_chunks(
      [&](int64_t key) {
        weights[threadIdx.x] = share * exp(score(key) - maximum);
        gradients[threadIdx.x] = weights[threadIdx.x] * (dot<T>(grad_out, of_key(x.v, key, Dv), Dv) - delta);
      },
      [&](int64_t key, int i) {
        const int64_t to = (first_key + key) * kv + kv_head;
        if (column < D) {
          grad_q = fma(gradients[i], static_cast<T>(of_key(x.k, key, D)[column]), grad_q);
          atomicAdd(y.grad_k + to * D + column, scale * gradients[i] * static_cast<T>(q[column]));
        }
        if (column < Dv) atomicAdd(y.grad_v + to * Dv + column, weights[i] * static_cast<T>(grad_out[column]));
      });
  if (column < D) y.grad_q[(packed * H + head) * D + column] = scale * grad_q;
}

}  // namespace

template <class T>
void reference_pairs(const CudaAttentionProblem& problem, const PairOperands& x, const PairResults<T>& y, int64_t rows) {
  if (rows > 0) row_of_pairs<T><<<dim3(static_cast<unsigned>(rows), problem.sizes.heads), kThreads>>>(problem, x, y);
}

template void reference_pairs(const CudaAttentionProblem&, const PairOperands&, const PairResults<double>&, int64_t);
template void reference_pairs(const CudaAttentionProblem&, const PairOperands&, const PairResults<float>&, int64_t);

}  // namespace deckle::testing
