// amax and amin over any dims.                                                  Reads every element once; a NaN wins
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/extrema.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <limits>
#include <optional>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/values.h"
#include "deckle/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

struct Largest {
  template <typename A>
  static constexpr A nothing() {
    return std::numeric_limits<A>::has_infinity ? -std::numeric_limits<A>::infinity() : std::numeric_limits<A>::lowest();
  }
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return maximum(d, a, b);
  }
  /// Of numbers, of which none is NaN.
  template <class V>
  static HWY_INLINE V plain(V a, V b) {
    return hn::Max(a, b);
  }
  template <class D, class V>
  static HWY_INLINE hn::TFromD<D> of_lanes(D d, V best) {
    return hn::GetLane(hn::MaxOfLanes(d, best));
  }
  template <typename A>
  static A of_two(A a, A b) {
    return a > b || a != a ? a : b;
  }
};

struct Smallest {
  template <typename A>
  static constexpr A nothing() {
    return std::numeric_limits<A>::has_infinity ? std::numeric_limits<A>::infinity() : std::numeric_limits<A>::max();
  }
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b) const {
    return minimum(d, a, b);
  }
  template <class V>
  static HWY_INLINE V plain(V a, V b) {
    return hn::Min(a, b);
  }
  template <class D, class V>
  static HWY_INLINE hn::TFromD<D> of_lanes(D d, V best) {
    return hn::GetLane(hn::MinOfLanes(d, best));
  }
  template <typename A>
  static A of_two(A a, A b) {
    return a < b || a != a ? a : b;
  }
};

/// Of elements stored as S. Four chains of plain comparisons; a NaN is kept beside them.
template <typename T, typename A, typename Pick, typename S = T>
A row_extremum(int64_t n, const S* x) {
  const hn::ScalableTag<T> d;
  const auto nothing = hn::Set(d, Pick::template nothing<T>());
  auto best0 = nothing, best1 = nothing, best2 = nothing, best3 = nothing, odd0 = nothing, odd1 = nothing;
  const auto take = [d](auto& best, auto& odd, auto value) HWY_ATTR {
    best = Pick::plain(best, value);
    if constexpr (hwy::IsFloat<T>()) odd = hn::IfThenElse(hn::IsNaN(value), value, odd);
  };
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const FullPart<decltype(d)> full{d};
  int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    take(best0, odd0, full.load(x + i));
    take(best1, odd1, full.load(x + i + lanes));
    take(best2, odd0, full.load(x + i + 2 * lanes));
    take(best3, odd1, full.load(x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) take(best0, odd0, full.load(x + i));
  if (i < n) {
    const TailPart<decltype(d)> tail{d, static_cast<size_t>(n - i)};
    take(best1, odd1, tail.or_else(tail.load(x + i), nothing));
  }
  const auto best = Pick::plain(Pick::plain(best0, best1), Pick::plain(best2, best3));
  if constexpr (hwy::IsFloat<T>()) {
    const auto odd = hn::IfThenElse(hn::IsNaN(odd0), odd0, odd1);
    if (!hn::AllFalse(d, hn::IsNaN(odd))) return std::numeric_limits<A>::quiet_NaN();
  }
  return static_cast<A>(Pick::of_lanes(d, best));
}

template <typename T, typename A, typename Pick, typename S = T>
void column_extrema(const reduce::Rows<S>& rows, int64_t columns, A* results) {
  const hn::ScalableTag<T> d;
  const auto pick = [d](auto a, auto b) HWY_ATTR { return Pick()(d, a, b); };
  if (rows.count == 0) return;
  T best[reduce::kMostColumns], next[reduce::kMostColumns];
  for (int64_t r = 0; r < rows.count; r += reduce::kDeep) {
    const auto part = rows.part(r, std::min(reduce::kDeep, rows.count - r));
    T* const to = r == 0 ? best : next;
    fold_columns(d, part, columns, Pick::template nothing<T>(), pick,
                 [to](auto lanes, int64_t c, auto value) HWY_ATTR { lanes.store(value, to + c); });
    if (r == 0) continue;
    map_run(d, columns,
            [&](auto lanes, int64_t c) HWY_ATTR { lanes.store(pick(lanes.load(best + c), lanes.load(next + c)), best + c); });
  }
  for (int64_t c = 0; c < columns; ++c) results[c] = Pick::template of_two<A>(results[c], static_cast<A>(best[c]));
}

void as_they_are(int64_t n, const double* folded, double, double* values) { std::copy_n(folded, n, values); }

/// The functions of elements stored as S, which are compared in lanes of Lane.
template <typename S, typename T, typename Lane, typename A, typename Pick>
reduce::StoredFold<S, T, A> stored_extremum() {
  return {&row_extremum<Lane, A, Pick, S>, &column_extrema<Lane, A, Pick, S>};
}

template <typename T, typename A, typename Pick>
reduce::Fold<T, A> extremum() {
  reduce::Fold<T, A> fold = {&row_extremum<T, A, Pick>, &column_extrema<T, A, Pick>, &Pick::template of_two<A>, nullptr,
                             Pick::template nothing<A>()};
  if constexpr (std::is_same_v<A, double>) fold.finish = &as_they_are;
  if constexpr (std::is_same_v<T, float>)
    fold.narrow = {stored_extremum<bfloat16, T, float, A, Pick>(), stored_extremum<float16, T, float, A, Pick>()};
  if constexpr (std::is_same_v<T, int64_t>) fold.narrow = {stored_extremum<int32_t, T, int32_t, A, Pick>()};
  return fold;
}

template <typename Pick>
reduce::Folds<double> extremum_folds() {
  return {{extremum<float, double, Pick>(), extremum<double, double, Pick>()}, extremum<int64_t, int64_t, Pick>()};
}

}  // namespace

reduce::Folds<double> extrema_folds(bool largest) { return largest ? extremum_folds<Largest>() : extremum_folds<Smallest>(); }

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(extrema_folds);

reduce::Folds<double> reduce::maxima() { return DECKLE_SIMD(extrema_folds)(true); }
reduce::Folds<double> reduce::minima() { return DECKLE_SIMD(extrema_folds)(false); }

void amax(const Context&, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  reduce::fold(reduce::maxima(), self, dim.value_or(std::span<const int64_t>()), 1.0, result);
}

void amin(const Context&, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  reduce::fold(reduce::minima(), self, dim.value_or(std::span<const int64_t>()), 1.0, result);
}

}  // namespace deckle::kernels::cpu
#endif
