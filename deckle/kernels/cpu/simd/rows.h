// Contiguous runs of float or double: accurate sums, maxima, maps, with their tails.
//
// A sum is built from blocks of 64 vectors, each summed in four accumulators, so 16 additions deep, and the blocks are added
// in double with their rounding errors carried: more accurate than pairwise, at the speed of the plain loop. The cut depends
// on n alone.
#if defined(DECKLE_KERNELS_CPU_SIMD_ROWS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_ROWS_H
#undef DECKLE_KERNELS_CPU_SIMD_ROWS_H
#else
#define DECKLE_KERNELS_CPU_SIMD_ROWS_H
#endif

#include <algorithm>
#include <cstdint>

#include "deckle/kernels/cpu/simd/math_basic.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {

/// A vector's worth of a run: all lanes, or the first `count`. Functions over runs take it by template, so that the
/// full case has no masks.
template <class D>
struct FullPart {
  D d;
  using T = hn::TFromD<D>;
  HWY_INLINE hn::Vec<D> load(const T* from) const { return hn::LoadU(d, from); }
  HWY_INLINE void store(hn::Vec<D> value, T* to) const { hn::StoreU(value, d, to); }
  HWY_INLINE hn::Vec<D> or_else(hn::Vec<D> value, hn::Vec<D>) const { return value; }
};
template <class D>
struct TailPart {
  D d;
  size_t count;
  using T = hn::TFromD<D>;
  HWY_INLINE hn::Vec<D> load(const T* from) const { return hn::MaskedLoad(hn::FirstN(d, count), d, from); }
  HWY_INLINE void store(hn::Vec<D> value, T* to) const { hn::BlendedStore(value, hn::FirstN(d, count), d, to); }
  /// `value` in the lanes of the run, `other` elsewhere.
  HWY_INLINE hn::Vec<D> or_else(hn::Vec<D> value, hn::Vec<D> other) const {
    return hn::IfThenElse(hn::FirstN(d, count), value, other);
  }
};

/// body(part, i) for i = 0, lanes, 2 lanes, ...: what a pointwise loop over n elements is.
template <class D, class Body>
HWY_INLINE void map_run(D d, int64_t n, Body body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(FullPart<D>{d}, i);
  if (i < n) body(TailPart<D>{d, static_cast<size_t>(n - i)}, i);
}

/// A sum of doubles that carries its rounding error (Neumaier's form of Kahan's).
struct ExactSum {
  double sum = 0, error = 0;
  HWY_INLINE void add(double value) {
    const double next = sum + value;
    const double lost = std::abs(sum) >= std::abs(value) ? (sum - next) + value : (value - next) + sum;
    if (lost == lost) error += lost;  // an infinite sum loses NaN
    sum = next;
  }
  HWY_INLINE double total() const { return sum + error; }
};

/// Sum of body(part, i) over n elements; what body gives beyond the end does not count.
template <class D, class Body>
HWY_INLINE double sum_run(D d, int64_t n, Body body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), block = 64 * lanes;
  ExactSum total;
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t end = std::min(begin + block, n);
    auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
    int64_t i = begin;
    const FullPart<D> full{d};
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      sum0 = hn::Add(sum0, body(full, i));
      sum1 = hn::Add(sum1, body(full, i + lanes));
      sum2 = hn::Add(sum2, body(full, i + 2 * lanes));
      sum3 = hn::Add(sum3, body(full, i + 3 * lanes));
    }
    for (; i + lanes <= end; i += lanes) sum0 = hn::Add(sum0, body(full, i));
    if (i < end) {
      const TailPart<D> tail{d, static_cast<size_t>(end - i)};
      sum1 = hn::Add(sum1, tail.or_else(body(tail, i), hn::Zero(d)));
    }
    const auto sum = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
    const double value = static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
    if (n <= block) return value;
    total.add(value);
  }
  return total.total();
}

struct TwoSums {
  double first, second;
};

/// Two sums in one pass: body(part, i, first, second) sets the two terms; what it gives beyond the end does not count.
template <class D, class Body>
HWY_INLINE TwoSums sum_run_two(D d, int64_t n, Body body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), block = 32 * lanes;
  ExactSum totals[2];
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t end = std::min(begin + block, n);
    auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), other0 = hn::Zero(d), other1 = hn::Zero(d);
    auto first = hn::Zero(d), second = hn::Zero(d);
    int64_t i = begin;
    const FullPart<D> full{d};
    for (; i + 2 * lanes <= end; i += 2 * lanes) {
      body(full, i, first, second);
      sum0 = hn::Add(sum0, first);
      other0 = hn::Add(other0, second);
      body(full, i + lanes, first, second);
      sum1 = hn::Add(sum1, first);
      other1 = hn::Add(other1, second);
    }
    for (; i + lanes <= end; i += lanes) {
      body(full, i, first, second);
      sum0 = hn::Add(sum0, first);
      other0 = hn::Add(other0, second);
    }
    if (i < end) {
      const TailPart<D> tail{d, static_cast<size_t>(end - i)};
      body(tail, i, first, second);
      sum1 = hn::Add(sum1, tail.or_else(first, hn::Zero(d)));
      other1 = hn::Add(other1, tail.or_else(second, hn::Zero(d)));
    }
    totals[0].add(static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)))));
    totals[1].add(static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(other0, other1)))));
  }
  return {totals[0].total(), totals[1].total()};
}

/// Largest of body(part, i) over n elements; -inf for none. A NaN may or may not win.
template <class D, class Body>
HWY_INLINE hn::TFromD<D> max_run(D d, int64_t n, Body body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto least = hn::Neg(infinity(d));
  auto max0 = least, max1 = least;
  int64_t i = 0;
  const FullPart<D> full{d};
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    max0 = hn::Max(max0, body(full, i));
    max1 = hn::Max(max1, body(full, i + lanes));
  }
  for (; i + lanes <= n; i += lanes) max0 = hn::Max(max0, body(full, i));
  if (i < n) {
    const TailPart<D> tail{d, static_cast<size_t>(n - i)};
    max1 = hn::Max(max1, tail.or_else(body(tail, i), least));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(max0, max1)));
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
