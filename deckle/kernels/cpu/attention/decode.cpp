// attention_forward for a few query rows on many keys: one step of decoding on a key/value cache.
//
// Vectors run along the head dim, and each row of K and V is read once, straight from memory, for all query rows that share its
// head. Keys are split into chunks that run in parallel, each for all heads; each yields (maximum, sum, unnormalised out) per
// row, merged in order, with the sink. Bound by memory: 2 item_size(dtype) (D + Dv) bytes per key and key head.
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
// Rejected: keys and values loaded once for the four query rows that share them: 15.9 to 14.6 in float32, nothing in bfloat16.

#include "deckle/kernels/cpu/attention/decode.h"

#include "deckle/kernels/cpu/simd/targets.h"

#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/geometry.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/attention/decode.cpp"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "deckle/kernels/cpu/attention/decode_rows-inl.h"
#include "deckle/kernels/cpu/attention/exp-inl.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

inline constexpr int64_t kDecodeChunk = 256;   // keys of a task
inline constexpr int64_t kDecodeTile = 64;     // keys between two updates of the maximum
inline constexpr int64_t kDecodeStep = 4;      // keys at a time
inline constexpr int64_t kDecodeAhead = 8192;  // bytes between what is computed and what is prefetched

/// Keys [begin, end) of one sequence, for all heads; the partial results of its rows start at `partial`.
struct DecodeTask {
  int64_t sequence, begin, end, partial;
};

/// The rows of a sequence in a task: by key head, then row, then head of the group.
struct DecodeRow {
  int64_t row, head;
  DecodeRow(const AttentionProblem& problem, int64_t rows, int64_t n)
      : row(n / problem.group() % rows), head(n / (rows * problem.group()) * problem.group() + n % problem.group()) {}
};

/// Length of a row's partial result in whole vectors: unnormalised out, then sum and maximum.
template <typename T>
constexpr int64_t decode_stride(int64_t value_dim) {
  return round_up_lanes<T>(value_dim) + std::max<int64_t>(2, kLanes<T>);
}

template <typename T, class Rows>
void decode_task(const AttentionProblem& problem, const AttentionOperands& x, const DecodeTask& task, T* partial) {
  const hn::ScalableTag<T> d;
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const Sequence sequence(problem, task.sequence);
  const int64_t D = problem.head_dim, Dv = problem.value_dim, group = problem.group(), shared = sequence.rows * group,
                rows = shared * problem.kv_heads;
  const int64_t q_stride = round_up_lanes<T>(D), o_stride = round_up_lanes<T>(Dv), state_stride = decode_stride<T>(Dv);

  Scratch scratch;
  T* q = scratch.take<T>(rows * q_stride);
  T* buffer = scratch.take<T>(kDecodeStep * std::max(q_stride, o_stride));
  T* scores = scratch.take<T>(rows * kDecodeTile);
  KeyRange seen[kDecodeRows], all{task.end, task.begin};  // by row
  for (int64_t i = 0; i < sequence.rows; ++i) {
    seen[i] = row_range(problem, sequence, i);
    if (!seen[i].empty())
      all = {std::min(all.begin, std::max(seen[i].begin, task.begin)), std::max(all.end, std::min(seen[i].end, task.end))};
  }
  for (int64_t n = 0; n < rows; ++n) {
    const DecodeRow at(problem, sequence.rows, n);
    load_rows(problem.dtype, x.q, sequence.first_row + at.row, 1, 0, at.head, D, static_cast<T>(problem.scale), q + n * q_stride,
              q_stride);
    T* state = partial + n * state_stride;
    std::fill_n(state, o_stride + 1, T(0));
    state[o_stride + 1] = -kInfinity;
  }
  const int64_t item = item_size(problem.dtype);
  const int64_t ahead = std::clamp<int64_t>(kDecodeAhead / (problem.kv_heads * D * item), 1, kDecodeTile);  // in keys
  // Processors prefetch no further than to the end of a page, which is a few keys.
  const auto request = [&](const AttentionRows& rows, int64_t key, int64_t head, int64_t bytes) {
    const char* at = row_address(problem.dtype, rows, sequence.first_key + key, head);
    for (int64_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(at + byte, 0, 3);
  };
  for (int64_t first = all.begin; first < all.end; first += kDecodeTile) {
    const int64_t keys = std::min(kDecodeTile, all.end - first), whole = round_up_lanes<T>(keys);
    // All heads of a few keys before the next keys: memory is read almost in the order in which it lies.
    const auto add_scores = [&]<int kCount>(int64_t j) HWY_ATTR {
      for (int64_t g = 0; g < problem.kv_heads; ++g) {
        const typename Rows::Element* k[kCount];
        for (int s = 0; s < kCount; ++s) {
          if (const int64_t soon = j + s + ahead; soon < keys) {
            request(x.k, first + soon, g, D * item);
          } else if (soon < 2 * keys) {
            request(x.v, first + soon - keys, g, Dv * item);
          }
          const int64_t key = std::min(j + s, keys - 1);  // the last one again: no score depends on how many keys there are
          k[s] = Rows::row(problem.dtype, x.k, sequence.first_key + first + key, g, D, buffer + s * q_stride);
        }
        int64_t n = g * shared;
        for (int64_t i = 0; i < sequence.rows; ++i) {
          for (int64_t h = 0; h < group; ++h, ++n) {
            hn::Vec<decltype(d)> sums[kCount];
            for (int s = 0; s < kCount; ++s) sums[s] = hn::Zero(d);
            for (int64_t e = 0; e < q_stride; e += kLanes<T>) {
              const auto left = hn::LoadU(d, q + n * q_stride + e);
              for (int s = 0; s < kCount; ++s) sums[s] = hn::MulAdd(left, Rows::load(d, k[s] + e), sums[s]);
            }
            T* to = scores + n * kDecodeTile + j;
            sums_of_lanes<kCount>(d, sums, to);
            for (int s = 0; s < kCount; ++s) {
              if (const int64_t key = first + j + s; key < seen[i].begin || key >= seen[i].end) to[s] = -kInfinity;
            }
          }
        }
      }
    };
    for (int64_t scored = 0; scored < keys; scored += kDecodeStep) add_scores.template operator()<kDecodeStep>(scored);
    for (int64_t n = 0; n < rows; ++n) {
      T* s = scores + n * kDecodeTile;
      T* state = partial + n * state_stride;
      std::fill(s + keys, s + whole, -kInfinity);
      auto tops = hn::Set(d, state[o_stride + 1]);
      for (int64_t j = 0; j < whole; j += kLanes<T>) tops = hn::Max(tops, hn::LoadU(d, s + j));
      const T top = hn::GetLane(hn::MaxOfLanes(d, tops)), base = top == -kInfinity ? T(0) : top;
      const auto old = exp_minus(d, hn::Set(d, state[o_stride + 1]), hn::Set(d, base));
      auto sums = hn::Zero(d);
      for (int64_t j = 0; j < whole; j += kLanes<T>) {
        const auto e = exp_minus(d, hn::LoadU(d, s + j), hn::Set(d, base));
        hn::StoreU(e, d, s + j);
        sums = hn::Add(sums, e);
      }
      state[o_stride] = state[o_stride] * hn::GetLane(old) + hn::GetLane(hn::SumOfLanes(d, sums));
      state[o_stride + 1] = top;
      for (int64_t e = 0; e < o_stride; e += kLanes<T>) hn::StoreU(hn::Mul(hn::LoadU(d, state + e), old), d, state + e);
    }
    const auto add_values = [&]<int kCount>(int64_t j) HWY_ATTR {
      for (int64_t g = 0; g < problem.kv_heads; ++g) {
        const typename Rows::Element* v[kCount];
        for (int s = 0; s < kCount; ++s) {
          if (const int64_t soon = j + s + ahead; soon < keys) {
            request(x.v, first + soon, g, Dv * item);
          } else if (first + soon < all.end) {
            request(x.k, first + soon, g, D * item);
          }
          v[s] = Rows::row(problem.dtype, x.v, sequence.first_key + first + j + s, g, Dv, buffer + s * o_stride);
        }
        for (int64_t n = g * shared; n < (g + 1) * shared; ++n) {
          const T* p = scores + n * kDecodeTile + j;
          T* state = partial + n * state_stride;
          bool all_count = true;
          for (int s = 0; s < kCount; ++s) all_count &= p[s] != T(0);
          if (all_count) {
            for (int64_t e = 0; e < o_stride; e += kLanes<T>) {
              auto sum = hn::LoadU(d, state + e);
              for (int s = 0; s < kCount; ++s) sum = hn::MulAdd(hn::Set(d, p[s]), Rows::load(d, v[s] + e), sum);
              hn::StoreU(sum, d, state + e);
            }
            continue;
          }
          for (int s = 0; s < kCount; ++s) {
            if (p[s] == T(0)) continue;  // masked keys too, whatever their values
            for (int64_t e = 0; e < o_stride; e += kLanes<T>)
              hn::StoreU(hn::MulAdd(hn::Set(d, p[s]), Rows::load(d, v[s] + e), hn::LoadU(d, state + e)), d, state + e);
          }
        }
      }
    };
    int64_t j = 0;
    for (; j + kDecodeStep <= keys; j += kDecodeStep) add_values.template operator()<kDecodeStep>(j);
    for (; j < keys; ++j) add_values.template operator()<1>(j);
  }
}

/// Adds up the chunks of one sequence in order, the sink first. `first` is its first task.
template <typename T>
void merge(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result, const DecodeTask& first,
           int64_t chunks, T* partials) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  const Sequence sequence(problem, first.sequence);
  const int64_t Dv = problem.value_dim, o_stride = round_up_lanes<T>(Dv), state_stride = decode_stride<T>(Dv),
                rows = sequence.rows * problem.heads, size = rows * state_stride;
  for (int64_t n = 0; n < rows; ++n) {
    const DecodeRow at(problem, sequence.rows, n);
    const T sink = x.sinks ? static_cast<const T*>(x.sinks)[at.head] : -kInfinity;
    T top = sink;
    for (int64_t c = 0; c < chunks; ++c) top = std::max(top, partials[c * size + n * state_stride + o_stride + 1]);
    const T base = top == -kInfinity ? T(0) : top;
    T* out = partials + n * state_stride;  // chunk 0 accumulates the result
    T sum = std::exp(sink - base);
    for (int64_t c = 0; c < chunks; ++c) {
      const T* part = partials + c * size + n * state_stride;
      const T weight = std::exp(part[o_stride + 1] - base);
      sum += weight * part[o_stride];
      for (int64_t e = 0; e < Dv; ++e) out[e] = c == 0 ? weight * part[e] : out[e] + weight * part[e];
    }
    for (int64_t e = 0; e < Dv; ++e) out[e] = sum == T(0) ? T(0) : out[e] / sum;
    store_rows(problem.dtype, result.out, sequence.first_row + at.row, 1, at.head, Dv, out, o_stride);
    if (result.lse != nullptr) {
      static_cast<T*>(result.lse)[(sequence.first_row + at.row) * problem.heads + at.head] =
          sum == T(0) ? -kInfinity : top + std::log(sum);
    }
  }
}

template <typename T, class Rows>
void run_decode_as(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result) {
  std::vector<DecodeTask> tasks;
  std::vector<int64_t> firsts;  // the first task of each sequence
  int64_t size = 0;
  for (int64_t b = 0; b < problem.sequences; ++b) {
    if (problem.decoded[b] == 0) continue;
    const int64_t keys = problem.keys(b), partial = problem.rows(b) * problem.heads * decode_stride<T>(problem.value_dim);
    firsts.push_back(static_cast<int64_t>(tasks.size()));
    for (int64_t begin = 0; begin == 0 || begin < keys; begin += kDecodeChunk, size += partial) {
      tasks.push_back({b, begin, std::min(begin + kDecodeChunk, keys), size});
    }
  }
  if (tasks.empty()) return;
  Scratch scratch;
  T* const partials = scratch.take<T>(size);
  parallel_for(static_cast<int64_t>(tasks.size()), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) decode_task<T, Rows>(problem, x, tasks[t], partials + tasks[t].partial);
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
  if (whole && problem.dtype == dtype_of<T>) return run_decode_as<T, InPlace<T>>(problem, x, result);
  if constexpr (std::is_same_v<T, float>) {
    if (whole && problem.dtype == DType::bfloat16) return run_decode_as<T, InPlaceBf16>(problem, x, result);
  }
  run_decode_as<T, Converted<T>>(problem, x, result);
}

void run_decode(const AttentionProblem& problem, const AttentionOperands& x, const AttentionResults& result) {
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
