// Extreme elements of contiguous rows: their places.                                        Reads every element once, and a block
//
// The extreme value of each block of vectors is found without a branch for each element; a block that has a better one than those
// before it is remembered, and the last of these is searched for the first place of its value. Instances: float, double, int64_t.
//
// Maxima of rows and their places, two threads of an Emerald Rapids, us:
//                                   [1024, 1024] of float32   bfloat16   float64   int64   [100, 100] of float32   int64
//   a comparison for each element                       507        556       542     563                    10.9    21.7
//   as above                                            136        141       259     213                     4.2     4.2
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/arg_rows.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "deckle/kernels/cpu/reduce/arg_rows.h"

#ifndef DECKLE_KERNELS_CPU_REDUCE_ARG_ROWS_ONCE
#define DECKLE_KERNELS_CPU_REDUCE_ARG_ROWS_ONCE
namespace deckle::kernels::cpu::reduce {

template <typename T>
using PlacesOfRows = void (*)(int64_t rows, int64_t n, const T* x, int64_t* places);

struct ArgRowTable {
  PlacesOfRows<float> f32[2];  // smallest, largest
  PlacesOfRows<double> f64[2];
  PlacesOfRows<int64_t> i64[2];
};

}  // namespace deckle::kernels::cpu::reduce
#endif

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kBlockVectors = 64;

/// Of fewer elements than a vector has.
template <bool kLargest, typename T>
int64_t place_of_few(int64_t n, const T* x) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i) {
    const bool is_beyond = kLargest ? x[i] > x[best] : x[i] < x[best], is_nan = x[i] != x[i] && x[best] == x[best];
    if (is_beyond || is_nan) best = i;
  }
  return best;
}

/// The first of the elements [from, end), of at least a vector, that `is` holds for; there is one.
template <class D, typename Is>
HWY_INLINE int64_t first_place(D d, int64_t from, int64_t end, const hn::TFromD<D>* x, const Is& is) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = from;; i = std::min(i + lanes, end - lanes)) {
    if (const int64_t at = hn::FindFirstTrue(d, is(hn::LoadU(d, x + i))); at >= 0) return i + at;
  }
}

template <bool kLargest, typename T>
HWY_INLINE int64_t place_of_row(int64_t n, const T* x) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (n < lanes) return place_of_few<kLargest>(n, x);
  int64_t best_from = 0, best_end = 0;
  T top = x[0];
  for (int64_t begin = 0; begin < n; begin += kBlockVectors * lanes) {
    const int64_t end = std::min(n, begin + kBlockVectors * lanes), from = std::min(begin, n - lanes);
    auto best0 = hn::LoadU(d, x + from), best1 = best0, best2 = best0, best3 = best0;
    auto odd0 = hn::FirstN(d, 0), odd1 = odd0;  // NaN, so far none
    const auto take = [&](auto& best, auto& odd, const T* at) HWY_ATTR {
      const auto value = hn::LoadU(d, at);
      best = kLargest ? hn::Max(best, value) : hn::Min(best, value);
      if constexpr (hwy::IsFloat<T>()) odd = hn::Or(odd, hn::IsNaN(value));
    };
    int64_t i = from;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      take(best0, odd0, x + i);
      take(best1, odd1, x + i + lanes);
      take(best2, odd0, x + i + 2 * lanes);
      take(best3, odd1, x + i + 3 * lanes);
    }
    for (; i + lanes <= end; i += lanes) take(best1, odd0, x + i);
    if (i < end) take(best2, odd1, x + end - lanes);
    if constexpr (hwy::IsFloat<T>()) {
      if (!hn::AllFalse(d, hn::Or(odd0, odd1)))
        return first_place(d, from, end, x, [](auto value) HWY_ATTR { return hn::IsNaN(value); });
    }
    const T best = kLargest ? hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(best0, best1), hn::Max(best2, best3))))
                            : hn::GetLane(hn::MinOfLanes(d, hn::Min(hn::Min(best0, best1), hn::Min(best2, best3))));
    if (begin > 0 && !(kLargest ? best > top : best < top)) continue;
    top = best, best_from = from, best_end = end;
  }
  const auto tops = hn::Set(d, top);
  return first_place(d, best_from, best_end, x, [tops](auto value) HWY_ATTR { return hn::Eq(value, tops); });
}

template <bool kLargest, typename T>
void places_of_rows(int64_t rows, int64_t n, const T* x, int64_t* places) {
  for (int64_t r = 0; r < rows; ++r) places[r] = place_of_row<kLargest>(n, x + r * n);
}

}  // namespace

reduce::ArgRowTable arg_row_table() {
  return {{&places_of_rows<false, float>, &places_of_rows<true, float>},
          {&places_of_rows<false, double>, &places_of_rows<true, double>},
          {&places_of_rows<false, int64_t>, &places_of_rows<true, int64_t>}};
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(arg_row_table);

void reduce::arg_extrema_of_rows(bool largest, int64_t rows, int64_t n, const float* x, int64_t* places) {
  DECKLE_SIMD(arg_row_table)().f32[largest](rows, n, x, places);
}
void reduce::arg_extrema_of_rows(bool largest, int64_t rows, int64_t n, const double* x, int64_t* places) {
  DECKLE_SIMD(arg_row_table)().f64[largest](rows, n, x, places);
}
void reduce::arg_extrema_of_rows(bool largest, int64_t rows, int64_t n, const int64_t* x, int64_t* places) {
  DECKLE_SIMD(arg_row_table)().i64[largest](rows, n, x, places);
}

}  // namespace deckle::kernels::cpu
#endif
