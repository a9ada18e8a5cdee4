// Contiguous runs of float or double: accurate sums, maxima, maps, with their tails.
//
// A sum is built from blocks of 64 vectors, each summed in four accumulators, so 16 additions deep, and the blocks are added in
// compensated double: an error below 11 epsilon of the magnitudes for any number of terms, at the speed of the plain loop. Sums
// of columns are built the same way from blocks of at most kDeep rows, also 16 additions deep. The partition depends on sizes
// alone.
#if defined(DECKLE_KERNELS_CPU_SIMD_ROWS_H) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_KERNELS_CPU_SIMD_ROWS_H
#undef DECKLE_KERNELS_CPU_SIMD_ROWS_H
#else
#define DECKLE_KERNELS_CPU_SIMD_ROWS_H
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "deckle/base/half.h"
#include "deckle/kernels/cpu/simd/compensated_sum.h"
#include "deckle/kernels/cpu/simd/half_lanes.h"
#include "deckle/kernels/cpu/simd/math_basic.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {

/// A vector from memory; of halves widened.
template <class D>
HWY_INLINE hn::Vec<D> load_vector(D d, const hn::TFromD<D>* from) {
  return hn::LoadU(d, from);
}
template <class D, Half H>
HWY_INLINE hn::Vec<D> load_vector(D d, const H* from) {
  return promote_half<H>(d, hn::LoadU(hn::Rebind<uint16_t, D>(), reinterpret_cast<const uint16_t*>(from)));
}

/// A vector's worth of a run: all lanes, or the first `count`. Functions over runs take it by template, so that the
/// full case has no masks.
template <class D>
struct FullPart {
  D d;
  using T = hn::TFromD<D>;
  template <typename S>
  HWY_INLINE hn::Vec<D> load(const S* from) const {
    return load_vector(d, from);
  }
  HWY_INLINE void store(hn::Vec<D> value, T* to) const { hn::StoreU(value, d, to); }
  template <Half H>
  HWY_INLINE void store(hn::Vec<D> value, H* to) const {
    hn::StoreU(demote_half<H>(d, value), hn::Rebind<uint16_t, D>(), reinterpret_cast<uint16_t*>(to));
  }
  HWY_INLINE hn::Vec<D> or_else(hn::Vec<D> value, hn::Vec<D>) const { return value; }
};
template <class D>
struct TailPart {
  D d;
  size_t count;
  using T = hn::TFromD<D>;
  HWY_INLINE hn::Vec<D> load(const T* from) const { return hn::MaskedLoad(hn::FirstN(d, count), d, from); }
  template <Half H>
  HWY_INLINE hn::Vec<D> load(const H* from) const {
#if HWY_TARGET <= HWY_AVX3
    const hn::Rebind<uint16_t, D> halves;
    return promote_half<H>(d, hn::MaskedLoad(hn::FirstN(halves, count), halves, reinterpret_cast<const uint16_t*>(from)));
#else  // masked loads of 16 bits read beyond the end
    H some[hn::MaxLanes(D())] = {};
    std::copy_n(from, count, some);
    return load_vector(d, some);
#endif
  }
  HWY_INLINE void store(hn::Vec<D> value, T* to) const { hn::BlendedStore(value, hn::FirstN(d, count), d, to); }
  template <Half H>
  HWY_INLINE void store(hn::Vec<D> value, H* to) const {
    const hn::Rebind<uint16_t, D> halves;
#if HWY_TARGET <= HWY_AVX3
    hn::BlendedStore(demote_half<H>(d, value), hn::FirstN(halves, count), halves, reinterpret_cast<uint16_t*>(to));
#else
    HWY_ALIGN uint16_t some[hn::MaxLanes(D())];
    hn::Store(demote_half<H>(d, value), halves, some);
    std::memcpy(to, some, count * sizeof(H));
#endif
  }
  /// `value` in the lanes of the run, `other` elsewhere.
  HWY_INLINE hn::Vec<D> or_else(hn::Vec<D> value, hn::Vec<D> other) const {
    return hn::IfThenElse(hn::FirstN(d, count), value, other);
  }
};

/// Elements of float, double or halves, in double.
template <typename T>
HWY_INLINE hn::Vec<hn::ScalableTag<double>> load_wide(hn::ScalableTag<double> d, const T* x) {
  if constexpr (std::is_same_v<T, double>)
    return hn::LoadU(d, x);
  else
    return hn::PromoteTo(d, load_vector(hn::Rebind<float, hn::ScalableTag<double>>(), x));
}

/// body(part, i) for i = 0, lanes, 2 lanes, ...: a pointwise loop over n elements.
template <class D, class Body>
HWY_INLINE void map_run(D d, int64_t n, Body body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(FullPart<D>{d}, i);
  if (i < n) body(TailPart<D>{d, static_cast<size_t>(n - i)}, i);
}

/// Sum of body(part, i) over n elements; lanes beyond the end are ignored.
template <class D, class Body>
HWY_INLINE double sum_run(D d, int64_t n, Body body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), block = 64 * lanes;
  CompensatedSum total;
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

/// sum += value, and `error` by what that lost, unless it is NaN: the sum is infinite.
template <class V>
HWY_INLINE void add_compensated(V value, V& sum, V& error) {
  V lost;
  sum = two_sum(sum, value, lost);
  error = hn::Add(error, hn::IfThenElseZero(hn::Eq(lost, lost), lost));
}

/// totals[c] += values[c].
HWY_INLINE void add_compensated(int64_t n, const double* values, CompensatedSum* totals) {
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::Vec<decltype(d)> sum, error;
    hn::LoadInterleaved2(d, &totals[i].sum, sum, error);
    add_compensated(hn::LoadU(d, values + i), sum, error);
    hn::StoreInterleaved2(sum, error, d, &totals[i].sum);
  }
  for (; i < n; ++i) totals[i].add(values[i]);
}

/// combine() of each column over all rows (reduce::Rows), from `nothing` on: take(part, c, those of a vector of columns from c
/// on).
template <class D, class Rows, class Combine, class Take, typename T = hn::TFromD<D>>
HWY_INLINE void fold_columns(D d, const Rows& rows, int64_t columns, T nothing, Combine combine, Take take) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto start = hn::Set(d, nothing);
  int64_t c = 0;
  // Even rows and odd ones apart: twice as many chains as loads in flight, and half as deep.
  for (; c + 4 * lanes <= columns; c += 4 * lanes) {
    auto even0 = start, even1 = start, even2 = start, even3 = start, odd0 = start, odd1 = start, odd2 = start, odd3 = start;
    int64_t r = 0;
    for (; r + 2 <= rows.count; r += 2) {
      const auto *const even = rows.at(r) + c, *const odd = rows.at(r + 1) + c;
      even0 = combine(even0, load_vector(d, even));
      even1 = combine(even1, load_vector(d, even + lanes));
      even2 = combine(even2, load_vector(d, even + 2 * lanes));
      even3 = combine(even3, load_vector(d, even + 3 * lanes));
      odd0 = combine(odd0, load_vector(d, odd));
      odd1 = combine(odd1, load_vector(d, odd + lanes));
      odd2 = combine(odd2, load_vector(d, odd + 2 * lanes));
      odd3 = combine(odd3, load_vector(d, odd + 3 * lanes));
    }
    if (r < rows.count) {
      const auto* const even = rows.at(r) + c;
      even0 = combine(even0, load_vector(d, even));
      even1 = combine(even1, load_vector(d, even + lanes));
      even2 = combine(even2, load_vector(d, even + 2 * lanes));
      even3 = combine(even3, load_vector(d, even + 3 * lanes));
    }
    take(FullPart<D>{d}, c, combine(even0, odd0));
    take(FullPart<D>{d}, c + lanes, combine(even1, odd1));
    take(FullPart<D>{d}, c + 2 * lanes, combine(even2, odd2));
    take(FullPart<D>{d}, c + 3 * lanes, combine(even3, odd3));
  }
  map_run(d, columns - c, [&](auto part, int64_t i) HWY_ATTR {
    auto even = start, odd = start;  // rows: two independent chains of additions
    int64_t r = 0;
    for (; r + 2 <= rows.count; r += 2) {
      even = combine(even, part.load(rows.at(r) + c + i));
      odd = combine(odd, part.load(rows.at(r + 1) + c + i));
    }
    if (r < rows.count) even = combine(even, part.load(rows.at(r) + c + i));
    take(part, c + i, combine(even, odd));
  });
}

struct TwoSums {
  double first, second;
};

/// Two sums in one pass: body(part, i, first, second) sets the two terms; lanes beyond the end are ignored.
template <class D, class Body>
HWY_INLINE TwoSums sum_run_two(D d, int64_t n, Body body) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), block = 32 * lanes;
  CompensatedSum totals[2];
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
