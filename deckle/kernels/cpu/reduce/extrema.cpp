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
  template <typename A>
  static A of_two(A a, A b) {
    return a < b || a != a ? a : b;
  }
};

template <typename T, typename A, typename Pick>
A row_extremum(int64_t n, const T* x) {
  const hn::ScalableTag<T> d;
  const Pick pick;
  auto best0 = hn::Set(d, Pick::template nothing<T>()), best1 = best0;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    best0 = pick(d, best0, hn::LoadU(d, x + i));
    best1 = pick(d, best1, hn::LoadU(d, x + i + lanes));
  }
  HWY_ALIGN T best[hn::MaxLanes(d)];
  hn::Store(pick(d, best0, best1), d, best);
  A result = Pick::template nothing<A>();
  for (const T value : best) result = Pick::template of_two<A>(result, static_cast<A>(value));
  for (; i < n; ++i) result = Pick::template of_two<A>(result, static_cast<A>(x[i]));
  return result;
}

template <typename T, typename A, typename Pick>
void column_extrema(const reduce::Rows<T>& rows, int64_t columns, A* results) {
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

template <typename T, typename Pick>
reduce::Fold<T, double> extremum() {
  return {&row_extremum<T, double, Pick>, &column_extrema<T, double, Pick>, &Pick::template of_two<double>, &as_they_are,
          Pick::template nothing<double>()};
}

template <typename Pick>
reduce::Folds<double> extremum_folds() {
  using I = int64_t;
  return {
      {extremum<float, Pick>(), extremum<double, Pick>()},
      {&row_extremum<I, I, Pick>, &column_extrema<I, I, Pick>, &Pick::template of_two<I>, nullptr, Pick::template nothing<I>()}};
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
