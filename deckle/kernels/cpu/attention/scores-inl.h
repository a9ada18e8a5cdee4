// Masking and softmax of a tile of transposed scores [keys, kBlock] between the two matrix products.

#if defined(DECKLE_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_SCORES_INL_H_
#undef DECKLE_ATTENTION_SCORES_INL_H_
#else
#define DECKLE_ATTENTION_SCORES_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "deckle/kernels/cpu/attention/geometry.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "deckle/kernels/cpu/attention/pack-inl.h"
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// The keys that each lane (query row) of a block may see.
template <typename T>
struct LaneRange : BlockRange {
  using Int = hn::TFromD<hn::RebindToSigned<hn::ScalableTag<T>>>;

  Int begin[kBlock<T>];
  Int end[kBlock<T>];
  int64_t lanes;  // whole vectors that hold rows

  LaneRange() = default;
  LaneRange(const AttentionProblem& problem, const Sequence& sequence, int64_t first, int64_t count)
      : BlockRange(block_range(problem, sequence, first, count, kBlock<T>, begin, end)), lanes(round_up_lanes<T>(count)) {}

  /// Whether some row does not see all of keys [first, last).
  bool cuts(int64_t first, int64_t last) const { return first < inner.begin || last > inner.end; }
};

/// Sets scores[j, lane] to -inf where the lane does not see key first + j.
template <typename T>
HWY_NOINLINE void mask_scores(T* HWY_RESTRICT scores, int64_t stride, int64_t first, int64_t keys, const LaneRange<T>& range) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  using Int = typename LaneRange<T>::Int;
  const auto minus_infinity = hn::Set(d, -std::numeric_limits<T>::infinity());
  for (int64_t lane = 0; lane < range.lanes; lane += kLanes<T>) {
    const auto begin = hn::LoadU(di, range.begin + lane), end = hn::LoadU(di, range.end + lane);
    for (int64_t j = 0; j < keys; ++j) {
      const auto key = hn::Set(di, static_cast<Int>(first + j));
      const auto seen = hn::AndNot(hn::VecFromMask(di, hn::Lt(key, begin)), hn::VecFromMask(di, hn::Lt(key, end)));
      T* at = scores + j * stride + lane;
      hn::StoreU(hn::IfThenElse(hn::RebindMask(d, hn::MaskFromVec(seen)), hn::LoadU(d, at), minus_infinity), d, at);
    }
  }
}

/// Ends the softmax of a block: out = accumulator^T / sum as rows [kBlock, stride], zero for rows without visible keys; maximum
/// becomes the log-sum-exp. A null accumulator counts as zeros.
template <typename T>
HWY_NOINLINE void finish_block(T* HWY_RESTRICT accumulator, int64_t columns, T* HWY_RESTRICT maximum, const T* HWY_RESTRICT sum,
                               T factor, T* HWY_RESTRICT out, int64_t stride) {
  const hn::ScalableTag<T> d;
  for (int64_t lane = 0; lane < kBlock<T>; lane += kLanes<T>) {
    const auto total = hn::LoadU(d, sum + lane);
    const auto dead = hn::Eq(total, hn::Zero(d));
    const auto inverse = hn::IfThenZeroElse(dead, hn::Div(hn::Set(d, factor), total));
    // Highway's logarithm, as simd/math_log.h's would change last bits of log-sum-exps: they take other polynomials.
    const auto lse = hn::Add(hn::LoadU(d, maximum + lane), hn::Log(d, hn::IfThenElse(dead, hn::Set(d, T(1)), total)));
    const auto visible = hn::IfThenElse(hn::IsNaN(total), total, lse);  // hn::Log does not propagate NaN
    hn::StoreU(hn::IfThenElse(dead, hn::Set(d, -std::numeric_limits<T>::infinity()), visible), d, maximum + lane);
    if (accumulator == nullptr) continue;
    for (int64_t c = 0; c < columns; ++c) {
      T* at = accumulator + c * kBlock<T> + lane;
      // Selected, not multiplied by 0: a row without visible keys may share tiles with rows whose values are not finite.
      hn::StoreU(hn::IfThenZeroElse(dead, hn::Mul(hn::LoadU(d, at), inverse)), d, at);
    }
  }
  if (accumulator == nullptr) {
    for (int64_t r = 0; r < kBlock<T>; ++r) std::memset(out + r * stride, 0, static_cast<size_t>(columns) * sizeof(T));
  } else {
    transpose(accumulator, kBlock<T>, columns, kBlock<T>, out, stride);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
