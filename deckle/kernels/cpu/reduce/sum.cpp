// sum and mean over any dims.                                                   Reads every element once (4 bytes, 1 FLOP)
//
// Memory-bound: the limit is bytes / bandwidth. Summation follows simd/rows.h: blocks of a run, or of kDeep rows of columns, in
// vectors of T, at most 22 additions deep; blocks are added in compensated double. However many terms, in whatever layout, the
// error is thus below 11 epsilon of T of the sum of their magnitudes, and far smaller unless roundings of equal terms agree.
// Where a block of floats leaves float, which their sum or mean need not, it is added again in double; where a sum leaves double,
// its mean is that of scaled elements (scaled.h).
// Instances: float, double, int64_t, float of halves in memory and int64_t of int32_t.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/sum.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/layout.h"
#include "deckle/kernels/cpu/reduce/values.h"
#include "deckle/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

/// Of elements stored as S.
template <typename T, typename S = T>
CompensatedSum row_sum(int64_t n, const S* x) {
  const hn::ScalableTag<T> d;
  const double sum = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return part.load(x + i); });
  if (sizeof(T) == 8 || std::isfinite(sum)) return {sum, 0};
  CompensatedSum wide;
  for (int64_t i = 0; i < n; ++i) wide.add(static_cast<double>(x[i]));
  return wide;
}

/// Replaces sums of columns that are not finite by those in double.
template <typename S, typename T>
HWY_INLINE void add_beyond(const reduce::Rows<S>& rows, int64_t columns, T* sums) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t c = 0; c < columns; c += lanes) {
    const int64_t end = std::min(c + lanes, columns);
    if (end - c == lanes && hn::AllTrue(d, hn::IsFinite(hn::LoadU(d, sums + c)))) continue;
    for (int64_t k = c; k < end; ++k) {
      if (std::isfinite(sums[k])) continue;
      double sum = 0;
      for (int64_t r = 0; r < rows.count; ++r) sum += static_cast<double>(rows.at(r)[k]);
      sums[k] = static_cast<T>(sum);
    }
  }
}

/// Whether some value that it was given is no number: found out beside the sums, in registers. Doubles have no wider sums.
template <class D>
class Beyond {
 public:
  HWY_INLINE explicit Beyond(D d) : d_(d), differences_(hn::Zero(d)) {}
  template <class V>
  HWY_INLINE void take(V value) {
    if constexpr (sizeof(hn::TFromD<D>) == 4) differences_ = hn::Add(differences_, hn::Sub(value, value));  // 0 or NaN
  }
  HWY_INLINE bool any() const {
    return sizeof(hn::TFromD<D>) == 4 && HWY_UNLIKELY(!hn::AllTrue(d_, hn::Eq(differences_, differences_)));
  }

 private:
  D d_;
  hn::Vec<D> differences_;
};

/// wide = value, or += it.
template <class V>
HWY_INLINE void add_wide(hn::ScalableTag<double> d, V value, bool on, double* wide) {
  hn::StoreU(on ? hn::Add(hn::LoadU(d, wide), value) : value, d, wide);
}
template <class D, class V>
HWY_INLINE void take_sums(FullPart<D> part, V value, bool on, double* wide) {
  const hn::ScalableTag<double> d;
  if constexpr (std::is_same_v<hn::TFromD<D>, double>) {
    add_wide(d, value, on, wide);
  } else {
    const hn::Rebind<float, decltype(d)> narrow;
    HWY_ALIGN float lanes[hn::MaxLanes(part.d)];
    hn::Store(value, part.d, lanes);
    for (size_t i = 0; i < hn::Lanes(part.d); i += hn::Lanes(d))
      add_wide(d, hn::PromoteTo(d, hn::LoadU(narrow, lanes + i)), on, wide + i);
  }
}
template <class D, class V>
HWY_INLINE void take_sums(TailPart<D> part, V value, bool on, double* wide) {
  HWY_ALIGN hn::TFromD<D> lanes[hn::MaxLanes(part.d)];
  hn::Store(value, part.d, lanes);
  for (size_t i = 0; i < part.count; ++i) wide[i] = (on ? wide[i] : 0) + static_cast<double>(lanes[i]);
}

/// Whether nothing was added yet: sums of the first rows then need no exact addition, which takes as long as their 30 rows.
HWY_INLINE bool all_nothing(int64_t n, const CompensatedSum* totals) {
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto any = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    any = hn::Or(any, hn::Or(hn::LoadU(d, &totals[i].sum), hn::LoadU(d, &totals[i].sum + lanes)));
  bool nothing = hn::AllTrue(d, hn::Eq(any, hn::Zero(d)));
  for (; i < n; ++i) nothing = nothing && totals[i].sum == 0 && totals[i].error == 0;
  return nothing;
}

/// totals[c] = values[c].
HWY_INLINE void take_compensated(int64_t n, const double* values, CompensatedSum* totals) {
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreInterleaved2(hn::LoadU(d, values + i), hn::Zero(d), d, &totals[i].sum);
  for (; i < n; ++i) totals[i] = {values[i], 0};
}

template <typename T, typename S = T>
void column_sums(const reduce::Rows<S>& rows, int64_t columns, CompensatedSum* results) {
  constexpr int64_t kBlocks = 8;  // of kDeep rows, added in double before their sum joins the others with its rounding error
  const hn::ScalableTag<T> d;
  const auto add = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  double wide[reduce::kMostColumns];
  for (int64_t begin = 0; begin < rows.count; begin += kBlocks * reduce::kDeep) {
    const int64_t end = std::min(begin + kBlocks * reduce::kDeep, rows.count);
    Beyond<decltype(d)> beyond(d);
    for (int64_t r = begin; r < end; r += reduce::kDeep) {
      fold_columns(d, rows.part(r, std::min(reduce::kDeep, end - r)), columns, T{0}, add,
                   [&](auto part, int64_t c, auto value) HWY_ATTR {
                     beyond.take(value);
                     take_sums(part, value, r > begin, wide + c);
                   });
    }
    if (beyond.any()) add_beyond(rows.part(begin, end - begin), columns, wide);
    if (begin == 0 && all_nothing(columns, results))
      take_compensated(columns, wide, results);
    else
      add_compensated(columns, wide, results);
  }
}

/// Of up to kDeep rows, which column_sums adds in T too.
template <typename T, typename S = T>
void few_sums(const reduce::Rows<S>& rows, int64_t columns, T* sums) {
  const hn::ScalableTag<T> d;
  const auto add = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  Beyond<decltype(d)> beyond(d);
  fold_columns(d, rows, columns, T{0}, add, [&](auto part, int64_t c, auto value) HWY_ATTR {
    beyond.take(value);
    part.store(value, sums + c);
  });
  if (beyond.any()) add_beyond(rows, columns, sums);
}

template <typename S>
int64_t integer_row_sum(int64_t n, const S* x) {
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum = reduce::add_modulo(sum, x[i]);
  return sum;
}

template <typename S>
void integer_column_sums(const reduce::Rows<S>& rows, int64_t columns, int64_t* results) {
  for (int64_t r = 0; r < rows.count; ++r) {
    const S* const row = rows.at(r);
    for (int64_t c = 0; c < columns; ++c) results[c] = reduce::add_modulo(results[c], row[c]);
  }
}

CompensatedSum add_sums(CompensatedSum a, CompensatedSum b) {
  a.add(b);
  return a;
}

void divide_sums(int64_t n, const CompensatedSum* folded, double divisor, double* values) {
  if (divisor == 1) {
    for (int64_t i = 0; i < n; ++i) values[i] = folded[i].total();
  } else {
    for (int64_t i = 0; i < n; ++i) values[i] = folded[i].total() / divisor;
  }
}

/// Whether all values are finite.
bool finite(int64_t n, const double* values) {
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto differences = hn::Zero(d);  // 0 or NaN
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto value = hn::LoadU(d, values + i);
    differences = hn::Add(differences, hn::Sub(value, value));
  }
  bool all = hn::AllTrue(d, hn::Eq(differences, differences));
  for (; i < n; ++i) all = all && std::isfinite(values[i]);
  return all;
}

bool overflowed(const CompensatedSum& folded) { return !std::isfinite(folded.total()); }

template <typename S>
reduce::StoredFold<S, float, CompensatedSum> stored_sums() {
  return {&row_sum<float, S>, &column_sums<float, S>, &few_sums<float, S>};
}

}  // namespace

reduce::Folds<CompensatedSum> sum_folds() {
  return {{{&row_sum<float>,
            &column_sums<float>,
            &add_sums,
            &divide_sums,
            {},
            {stored_sums<bfloat16>(), stored_sums<float16>()},
            &few_sums<float>},
           {&row_sum<double>, &column_sums<double>, &add_sums, &divide_sums, {}, {}, &few_sums<double>}},
          {&integer_row_sum<int64_t>, &integer_column_sums<int64_t>, &reduce::add_modulo, nullptr, 0,
           reduce::StoredFold<int32_t, int64_t, int64_t>{&integer_row_sum<int32_t>, &integer_column_sums<int32_t>}}};
}

reduce::Folds<CompensatedSum> mean_folds() {
  reduce::Folds<CompensatedSum> folds = sum_folds();
  folds.f64.usual = &finite, folds.f64.lost = &overflowed, folds.f64.degree = 1;
  return folds;
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(sum_folds);
HWY_EXPORT(mean_folds);

reduce::Folds<CompensatedSum> reduce::sums() { return DECKLE_SIMD(sum_folds)(); }
reduce::Folds<CompensatedSum> reduce::means() { return DECKLE_SIMD(mean_folds)(); }

void sum(const Context&, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  reduce::fold(reduce::sums(), self, dim.value_or(std::span<const int64_t>()), 1.0, result);
}

/// Of no elements: NaN.
void mean(const Context&, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  const int64_t count = reduce::Layout(self, dim.value_or(std::span<const int64_t>())).length;
  reduce::fold(reduce::means(), self, dim.value_or(std::span<const int64_t>()), static_cast<double>(count), result);
}

}  // namespace deckle::kernels::cpu
#endif
