// attention_forward for a few query rows on many keys: one step of decoding on a key/value cache.
//
// Each row of K and V is read once, straight from memory, for all query rows that share its head: in vectors along the head dim
// (decode_vectors-inl.h), or, in bfloat16 with three query heads a key head and more, on AMX tiles (decode_tiles-inl.h). Keys are
// split into chunks that run in parallel, each for all heads: scores, one softmax, values. Each yields (sum, maximum,
// unnormalised out) per row, merged in order, with the sink. Bound by memory: 2 item_size(dtype) (D + Dv) bytes per key and key
// head.
//
// Two cores of an EPYC of family 25, 2026-11-21, db9c285b: float32, one text of 8,192 keys, 8 heads on 8 key heads, D = 64:
//   a key head at a time       262 tokens/s     8.8 GB/s, 256 bytes of every 2,048
//   all heads of a key       1,445 tokens/s    48.5 GB/s, memory in the order in which it lies
// The same on 2 key heads, which 4 query heads share each (60544a8c):
//   a key at a time          2,425 tokens/s    20.3 GB/s, a load and a store of the sums per key
//   four keys' values        3,606 tokens/s    30.2 GB/s, the sums in registers
// Two cores of Emerald Rapids, GB/s, 8 key heads and 2, text of 8,192 keys (2026-11-28, ec2f1bb2; they read 15 from memory):
//                                                    float32         bfloat16
//   bfloat16 converted in a buffer                   14.8   12.3     7.4   5.5
//   in registers                                     14.8   12.2     8.4   6.7
//   four keys at a time, results aligned, requests   25.4   15.4     17.9  9.5
//   four sums of lanes at a time                     27.4   17.7     18.2  9.4
// One core of Emerald Rapids, GB/s of its own time, the same text, in turns, the best of seven (2026-11-29, host shared); a loop
// reads 27 from the third cache, where these keys lie, and 115 from the second, which holds a text of 2,048 keys (last column):
//                                                    float32         bfloat16       2,048 keys
//   one query row at a time (3344efc9)               23.6   16.8     19.5   8.0     8.1
//   up to four rows, 256 keys a softmax              23.4   17.0
//   requested in the order of memory                 24.1   20.6     20.8
//   on tiles                                                         16.2   15.7    21.3
// With one query head a key head tiles gave 15.8 where vectors give 20.8; two, not timed on tiles, stay in vectors as well. Tried
// on tiles alone: a burst of 128 requests fills the queue, and nothing is computed until they are served; a load of a tile
// register waits for the product that reads it.

#include "deckle/kernels/cpu/attention/decode.h"

#include "deckle/kernels/cpu/simd/targets.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/decode_place.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/prefetch.h"
#include "deckle/kernels/cpu/simd/amx.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/attention/decode.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "deckle/kernels/cpu/attention/decode_rows-inl.h"
#include "deckle/kernels/cpu/attention/decode_tiles-inl.h"
#include "deckle/kernels/cpu/attention/decode_vectors-inl.h"
#include "deckle/kernels/cpu/attention/exp-inl.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

/// A row's partial result: the sum of its weights and the maximum of its scores, which the weights are relative to, then from
/// kDecodeOut on the unnormalised out.
inline constexpr int64_t kDecodeSum = 0, kDecodeTop = 1, kDecodeOut = 16;

/// Its length, with room for whole vectors and for pairs of them.
constexpr int64_t decode_stride(int64_t value_dim) { return kDecodeOut + (value_dim + 31) / 32 * 32; }

/// Scores s of row n at positions [low, whole) become weights exp(z - top), z = factor * score where the row sees the key.
template <class Products, typename T = typename Products::Real>
HWY_INLINE void weigh(const DecodePlace& place, const Products& products, int64_t n, T* s, T* state) {
  const hn::ScalableTag<T> d;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const KeyRange& seen = place.seen_by(n % place.shared);
  if (products.factor() != T(1)) {
    const auto factor = hn::Set(d, products.factor());
    for (int64_t j = place.low; j < place.whole; j += kLanes<T>) hn::StoreU(hn::Mul(hn::LoadU(d, s + j), factor), d, s + j);
  }
  std::fill(s + place.low, s + std::max(place.low, seen.begin), -kInfinity);
  std::fill(s + std::max(place.low, seen.end), s + place.whole, -kInfinity);
  auto tops = hn::Set(d, -kInfinity);
  for (int64_t j = place.low; j < place.whole; j += kLanes<T>) tops = hn::Max(tops, hn::LoadU(d, s + j));
  const T top = hn::GetLane(hn::MaxOfLanes(d, tops));
  const auto base = hn::Set(d, top == -kInfinity ? T(0) : top);
  const auto keep = products.keeper(n);
  auto sums = hn::Zero(d);
  for (int64_t j = place.low; j < place.whole; j += kLanes<T>) {
    const auto e = exp_minus(d, hn::LoadU(d, s + j), base);
    hn::StoreU(e, d, s + j);
    keep(d, j, e);
    sums = hn::Add(sums, e);
  }
  state[kDecodeSum] = hn::GetLane(hn::SumOfLanes(d, sums));
  state[kDecodeTop] = top;
}

/// `next` is the next task of this thread, or null.
template <class Products, typename T = typename Products::Real>
void decode_task(const AttentionProblem& problem, const AttentionOperands& x, const DecodeTask& task, const DecodeTask* next,
                 T* partial) {
  const DecodePlace place(problem, x, task);
  const int64_t stride = decode_stride(problem.value_dim);
  Scratch scratch;
  T* scores = scratch.take<T>((place.rows + 3) * kDecodeChunk);
  const Products products(scratch, place);
  const DecodeAhead ahead(place, products.ahead(), next);
  products.scores(scores, ahead);
  for (int64_t n = 0; n < place.rows; ++n) weigh(place, products, n, scores + n * kDecodeChunk, partial + n * stride);
  products.values(scores, partial + kDecodeOut, stride, ahead);
}

/// Adds up the chunks of one sequence in order, the sink first. `first` is its first task.
template <typename T>
void merge(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result, const DecodeTask& first,
           int64_t chunks, T* partials) {
  const hn::ScalableTag<T> d;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const Sequence sequence(problem, first.sequence);
  const int64_t Dv = problem.value_dim, stride = decode_stride(Dv), rows = sequence.rows * problem.heads, size = rows * stride;
  Scratch scratch;
  T* weights = scratch.take<T>(round_up_lanes<T>(chunks));
  for (int64_t n = 0; n < rows; ++n) {
    const DecodeRow at(problem, sequence.rows, n);
    T* const part = partials + n * stride;  // of chunk 0, which takes the result
    const T sink = x.sinks ? static_cast<const T*>(x.sinks)[at.head] : -kInfinity;
    T top = sink;
    std::fill_n(weights, round_up_lanes<T>(chunks), -kInfinity);
    for (int64_t c = 0; c < chunks; ++c) {
      weights[c] = part[c * size + kDecodeTop];
      top = std::max(top, weights[c]);
    }
    const T base = top == -kInfinity ? T(0) : top;
    for (int64_t c = 0; c < chunks; c += kLanes<T>)
      hn::StoreU(exp_minus(d, hn::LoadU(d, weights + c), hn::Set(d, base)), d, weights + c);
    T sum = std::exp(sink - base);
    for (int64_t c = 0; c < chunks; ++c) sum += weights[c] * part[c * size + kDecodeSum];
    T* const out = part + kDecodeOut;
    for (int64_t e = 0; e < Dv; e += kLanes<T>) {
      auto total = hn::Mul(hn::Set(d, weights[0]), hn::LoadU(d, out + e));
      for (int64_t c = 1; c < chunks; ++c) total = hn::MulAdd(hn::Set(d, weights[c]), hn::LoadU(d, out + c * size + e), total);
      hn::StoreU(sum == T(0) ? hn::Zero(d) : hn::Div(total, hn::Set(d, sum)), d, out + e);
    }
    store_rows(problem.dtype, result.out, sequence.first_row + at.row, 1, at.head, Dv, out, stride);
    if (result.lse != nullptr) {
      static_cast<T*>(result.lse)[(sequence.first_row + at.row) * problem.heads + at.head] =
          sum == T(0) ? -kInfinity : top + std::log(sum);
    }
  }
}

template <class Products>
void run_decode_as(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result) {
  using T = typename Products::Real;
  std::vector<DecodeTask> tasks;
  std::vector<int64_t> firsts;  // the first task of each sequence
  int64_t size = 0;
  for (int64_t b = 0; b < problem.sequences; ++b) {
    if (problem.decoded[b] == 0) continue;
    const int64_t keys = problem.keys(b), partial = problem.rows(b) * problem.heads * decode_stride(problem.value_dim);
    firsts.push_back(static_cast<int64_t>(tasks.size()));
    for (int64_t begin = 0; begin == 0 || begin < keys; begin += kDecodeChunk, size += partial) {
      tasks.push_back({b, begin, std::min(begin + kDecodeChunk, keys), size});
    }
  }
  if (tasks.empty()) return;
  Scratch scratch;
  T* const partials = scratch.take<T>(size);
  parallel_for(static_cast<int64_t>(tasks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      decode_task<Products>(problem, x, tasks[t], likely_next(tasks, t, end, 1), partials + tasks[t].partial);
    }
  });
  parallel_for(static_cast<int64_t>(firsts.size()), 8, [&](int64_t begin, int64_t end) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t next = n + 1 < static_cast<int64_t>(firsts.size()) ? firsts[n + 1] : static_cast<int64_t>(tasks.size());
      merge<T>(problem, x, result, tasks[firsts[n]], next - firsts[n], partials + tasks[firsts[n]].partial);
    }
  });
}

template <typename T>
void run_decode_of(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result) {
  const bool whole = problem.head_dim % kLanes<T> == 0 && problem.value_dim % kLanes<T> == 0;
  if (whole && problem.dtype == dtype_of<T>) return run_decode_as<VectorProducts<T, InPlace<T>>>(problem, x, result);
  if constexpr (std::is_same_v<T, float>) {
    if (whole && problem.dtype == DType::bfloat16) return run_decode_as<VectorProducts<T, InPlaceBf16>>(problem, x, result);
  }
  run_decode_as<VectorProducts<T, Converted<T>>>(problem, x, result);
}

void run_decode(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result) {
#if HWY_TARGET == HWY_AVX3
  // By the group, not by the rows: a row has the same bits alone and among others.
  if (problem.dtype == DType::bfloat16 && problem.group() >= kDecodeTileGroup && simd::bf16_products() == Bf16Arithmetic::tiles)
    return run_decode_as<TileProducts>(problem, x, result);
#endif
  if (problem.dtype == DType::float64) {
    run_decode_of<double>(problem, x, result);
  } else {
    run_decode_of<float>(problem, x, result);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(run_decode);

void attention_decode(const AttentionProblem& problem, const AttentionOperands& operands, const AttentionResults& result) {
  DECKLE_SIMD(run_decode)(problem, operands, result);
}

}  // namespace deckle::kernels::cpu
#endif
