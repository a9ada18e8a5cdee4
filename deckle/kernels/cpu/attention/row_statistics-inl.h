// The per-row statistics that the backward passes start from, and the accumulation of dq.

#if defined(DECKLE_ATTENTION_ROW_STATISTICS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_ROW_STATISTICS_INL_H_
#undef DECKLE_ATTENTION_ROW_STATISTICS_INL_H_
#else
#define DECKLE_ATTENTION_ROW_STATISTICS_INL_H_
#endif

#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/cpu/attention/chunks.h"
#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Rows per step of the row-wise passes over memory.
inline constexpr int64_t kRowGrain = 64;

template <typename T>
HWY_INLINE T dot(const T* HWY_RESTRICT a, const T* HWY_RESTRICT b, int64_t whole_vectors) {
  const hn::ScalableTag<T> d;
  auto sum = hn::Zero(d);
  for (int64_t i = 0; i < whole_vectors; i += kLanes<T>) sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// lse and Delta = rowsum(dout out) - dlse of every row and head, [rows of the batch, heads]. Rows without visible keys (lse
/// -inf) get lse +inf, so that exp(z - lse) is 0 for any z, and Delta 0 for any cotangent.
template <typename T>
class RowStatistics {
 public:
  /// `out_dtype` is result.out's; cotangent.out is of the problem's dtype. Lives as long as `memory`.
  RowStatistics(Scratch& memory, const AttentionProblem& problem, const AttentionResults& result, DType out_dtype,
                const AttentionResults& cotangent)
      : heads_(problem.heads) {
    const int64_t rows = batch_rows(problem);
    values_ = memory.take<T>(rows * heads_);
    delta_ = memory.take<T>(rows * heads_);
    const int64_t Dv = problem.value_dim, whole = round_up_lanes<T>(Dv);
    const bool in_place = whole == Dv && out_dtype == dtype_of<T> && problem.dtype == dtype_of<T>;
    parallel_for(rows, kRowGrain, [&](int64_t begin, int64_t end) {
      Scratch scratch;
      T* out = scratch.take<T>(whole);
      T* dout = scratch.take<T>(whole);
      std::memset(out, 0, static_cast<size_t>(whole) * sizeof(T));
      std::memset(dout, 0, static_cast<size_t>(whole) * sizeof(T));
      const auto product = [&](int64_t row, int64_t h) {
        const char* a = row_address(out_dtype, result.out, row, h);
        const char* b = row_address(problem.dtype, cotangent.out, row, h);
        if (in_place) return dot(reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b), whole);
        load_row(out_dtype, a, Dv, T(1), out);
        load_row(problem.dtype, b, Dv, T(1), dout);
        return dot(out, dout, whole);
      };
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t h = 0; h < heads_; ++h) {
          const int64_t at = row * heads_ + h;
          const T lse = static_cast<const T*>(result.lse)[at];
          if (lse == -std::numeric_limits<T>::infinity()) {
            values_[at] = std::numeric_limits<T>::infinity();
            delta_[at] = T(0);
            continue;
          }
          values_[at] = lse;
          delta_[at] = product(row, h) - (cotangent.lse ? static_cast<const T*>(cotangent.lse)[at] : T(0));
        }
      }
    });
  }

  /// lse (+inf for a row without visible keys) and Delta of one row and head.
  T lse(int64_t row, int64_t h) const { return values_[row * heads_ + h]; }
  T delta(int64_t row, int64_t h) const { return delta_[row * heads_ + h]; }

  /// lse and Delta of rows [row, row + count) of head h; the rest up to `padded` as for rows without visible keys.
  void load(int64_t row, int64_t count, int64_t padded, int64_t h, T* lse, T* delta) const {
    for (int64_t r = 0; r < padded; ++r) {
      const int64_t at = (row + r) * heads_ + h;
      lse[r] = r < count ? values_[at] : std::numeric_limits<T>::infinity();
      delta[r] = r < count ? delta_[at] : T(0);
    }
  }

 private:
  int64_t heads_;
  T *values_, *delta_;
};

/// The tangents of lse and Delta: tDelta = rowsum(tdout out + dout tout) - tdlse. All 0 for rows without visible keys. `result`
/// and `result_tangent` are of T.
template <typename T>
class TangentStatistics {
 public:
  TangentStatistics(Scratch& memory, const AttentionProblem& problem, const RowStatistics<T>& primal,
                    const AttentionResults& result, const AttentionResults& result_tangent, const AttentionResults& cotangent,
                    const AttentionResults& cotangent_tangent)
      : heads_(problem.heads), lse_(static_cast<const T*>(result_tangent.lse)) {
    const int64_t rows = batch_rows(problem);
    delta_ = memory.take<T>(rows * heads_);
    const int64_t Dv = problem.value_dim, whole = round_up_lanes<T>(Dv);
    parallel_for(rows, kRowGrain, [&](int64_t begin, int64_t end) {
      Scratch scratch;
      T* value = scratch.take<T>(whole);
      T* gradient = scratch.take<T>(whole);
      std::memset(value, 0, static_cast<size_t>(whole) * sizeof(T));
      std::memset(gradient, 0, static_cast<size_t>(whole) * sizeof(T));
      const auto product = [&](const AttentionRows& values, const AttentionRows& gradients, int64_t row, int64_t h) {
        load_row(dtype_of<T>, row_address(dtype_of<T>, values, row, h), Dv, T(1), value);
        load_row(problem.dtype, row_address(problem.dtype, gradients, row, h), Dv, T(1), gradient);
        return dot(value, gradient, whole);
      };
      for (int64_t row = begin; row < end; ++row) {
        for (int64_t h = 0; h < heads_; ++h) {
          T sum = T(0);
          if (primal.lse(row, h) != std::numeric_limits<T>::infinity()) {
            sum = product(result_tangent.out, cotangent.out, row, h);
            if (cotangent_tangent.out.data != nullptr) sum += product(result.out, cotangent_tangent.out, row, h);
            if (cotangent_tangent.lse != nullptr) sum -= static_cast<const T*>(cotangent_tangent.lse)[row * heads_ + h];
          }
          delta_[row * heads_ + h] = sum;
        }
      }
    });
  }

  T lse(int64_t row, int64_t h) const { return lse_[row * heads_ + h]; }
  T delta(int64_t row, int64_t h) const { return delta_[row * heads_ + h]; }

  void load(int64_t row, int64_t count, int64_t padded, int64_t h, T* lse_tangent, T* delta_tangent) const {
    for (int64_t r = 0; r < padded; ++r) {
      lse_tangent[r] = r < count ? lse(row + r, h) : T(0);
      delta_tangent[r] = r < count ? delta(row + r, h) : T(0);
    }
  }

 private:
  int64_t heads_;
  const T* lse_;
  T* delta_;
};

/// The accumulator of dq: the output itself if there is one chunk everywhere and no rounding, or one block of keys, so that a row
/// is added to once; else one buffer per chunk.
template <typename T>
class QueryGradient {
 public:
  QueryGradient(const AttentionProblem& problem, const AttentionRows& target, const KeyTasks& tasks)
      : problem_(problem), target_(target), chunks_(tasks.chunks) {
    if (target.data == nullptr) return;
    const int64_t most = tasks.most_chunks;
    const int64_t rows = batch_rows(problem);
    int64_t longest = 0;
    for (int64_t b = 0; b < problem.sequences; ++b) longest = std::max(longest, problem.keys(b));
    rounds_ = item_size(problem.dtype) != static_cast<int64_t>(sizeof(T));
    if (most == 1 && (!rounds_ || longest <= kKeyBlock)) return;
    chunk_size_ = rows * problem.heads * problem.head_dim;
    work_ = memory_.take<T>(most * chunk_size_);
  }

  /// Whether the rows are the output's.
  bool in_place() const { return work_ == nullptr; }

  void clear(int64_t chunk, const Sequence& sequence, int64_t h) const { clear(chunk, sequence.first_row, sequence.rows, h); }
  void clear(int64_t chunk, int64_t first, int64_t count, int64_t h) const {
    const int64_t size = in_place() ? item_size(problem_.dtype) : static_cast<int64_t>(sizeof(T));
    for (int64_t i = 0; i < count; ++i) std::memset(row(chunk, first + i, h), 0, static_cast<size_t>(problem_.head_dim * size));
  }

  /// Rows [first, first + count) += factor * tile; `fresh`, or added to once: = in place of +=.
  void add(int64_t chunk, int64_t first, int64_t count, int64_t h, const T* tile, int64_t stride, T factor, bool fresh) const {
    const hn::ScalableTag<T> d;
    const auto by = hn::Set(d, factor);
    const bool once = in_place() && rounds_;
    Scratch scratch;
    T* const exact = once ? scratch.take<T>(problem_.head_dim) : nullptr;
    for (int64_t r = 0; r < count; ++r) {
      void* const at = row(chunk, first + r, h);
      T* const to = once ? exact : static_cast<T*>(at);
      const T* from = tile + r * stride;
      int64_t i = 0;
      if (fresh || once) {
        for (; i + kLanes<T> <= problem_.head_dim; i += kLanes<T>) hn::StoreU(hn::Mul(hn::LoadU(d, from + i), by), d, to + i);
        for (; i < problem_.head_dim; ++i) to[i] = from[i] * factor;
        if (once) store_row(problem_.dtype, exact, problem_.head_dim, at);
        continue;
      }
      for (; i + kLanes<T> <= problem_.head_dim; i += kLanes<T>) {
        hn::StoreU(hn::MulAdd(hn::LoadU(d, from + i), by, hn::LoadU(d, to + i)), d, to + i);
      }
      for (; i < problem_.head_dim; ++i) to[i] += from[i] * factor;
    }
  }

  /// Adds the chunks in order and rounds to the output.
  void finish() const {
    if (!work_) return;
    const int64_t D = problem_.head_dim;
    for (int64_t b = 0; b < problem_.sequences; ++b) {
      const Sequence sequence(problem_, b);
      parallel_for(sequence.rows, kRowGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t h = 0; h < problem_.heads; ++h) {
            T* total = static_cast<T*>(row(0, sequence.first_row + i, h));
            for (int64_t chunk = 1; chunk < chunks_[b]; ++chunk) {
              const T* part = static_cast<const T*>(row(chunk, sequence.first_row + i, h));
              for (int64_t e = 0; e < D; ++e) total[e] += part[e];
            }
            store_row(problem_.dtype, total, D, row_address(problem_.dtype, target_, sequence.first_row + i, h));
          }
        }
      });
    }
  }

 private:
  /// Of T in a buffer, else of the output.
  void* row(int64_t chunk, int64_t packed_row, int64_t h) const {
    if (work_) return work_ + chunk * chunk_size_ + (packed_row * problem_.heads + h) * problem_.head_dim;
    return row_address(problem_.dtype, target_, packed_row, h);
  }

  const AttentionProblem& problem_;
  const AttentionRows target_;
  const std::vector<int64_t>& chunks_;
  int64_t chunk_size_ = 0;
  bool rounds_ = false;  // the output has fewer bits than T
  Scratch memory_;
  T* work_ = nullptr;
};

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
