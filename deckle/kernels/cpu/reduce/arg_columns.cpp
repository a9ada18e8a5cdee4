// Extreme elements of columns that lie side by side, and their rows.                              Reads every element once
//
// A vector of columns keeps its best elements and their rows in registers: no branch, where a row alone has one for every element
// that is better than those before it. Instances: float (float32 and the halves), double, int64_t (integers, bool).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/arg_columns.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "deckle/kernels/cpu/reduce/arg_columns.h"
#include "deckle/kernels/cpu/simd/rows.h"

#ifndef DECKLE_KERNELS_CPU_REDUCE_ARG_COLUMNS_ONCE
#define DECKLE_KERNELS_CPU_REDUCE_ARG_COLUMNS_ONCE
namespace deckle::kernels::cpu::reduce {

struct ArgTable {
  BestOfColumns<float> f32[2];  // smallest, largest
  BestOfColumns<double> f64[2];
  BestOfColumns<int64_t> i64[2];
};

}  // namespace deckle::kernels::cpu::reduce
#endif

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

template <bool kLargest, typename T>
void best_of_columns(int64_t rows, int64_t n, const T* x, int64_t stride, T* best, int64_t* places) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> integers;
  using Place = hn::TFromD<decltype(integers)>;
  const auto better = [](auto later, auto earlier) HWY_ATTR {
    const auto beyond = kLargest ? hn::Gt(later, earlier) : hn::Lt(later, earlier);
    if constexpr (std::is_same_v<T, int64_t>)
      return beyond;
    else
      return hn::Or(beyond, hn::AndNot(hn::IsNaN(earlier), hn::IsNaN(later)));
  };
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN Place rows_of[hn::MaxLanes(d)];
  const auto keep = [&](auto part, int64_t c, int64_t count, auto top, auto place) HWY_ATTR {
    part.store(top, best + c);
    hn::Store(place, integers, rows_of);
    for (int64_t i = 0; i < count; ++i) places[c + i] = static_cast<int64_t>(rows_of[i]);
  };
  const FullPart<decltype(d)> full{d};
  const auto step = hn::Set(integers, Place{1});
  int64_t c = 0;
  for (; c + 2 * lanes <= n; c += 2 * lanes) {
    auto top0 = hn::LoadU(d, x + c), top1 = hn::LoadU(d, x + c + lanes);
    auto place0 = hn::Zero(integers), place1 = place0, row = place0;
    for (int64_t r = 1; r < rows; ++r) {
      const T* const from = x + r * stride + c;
      const auto later0 = hn::LoadU(d, from), later1 = hn::LoadU(d, from + lanes);
      row = hn::Add(row, step);
      const auto is0 = better(later0, top0), is1 = better(later1, top1);
      top0 = hn::IfThenElse(is0, later0, top0);
      top1 = hn::IfThenElse(is1, later1, top1);
      place0 = hn::IfThenElse(hn::RebindMask(integers, is0), row, place0);
      place1 = hn::IfThenElse(hn::RebindMask(integers, is1), row, place1);
    }
    keep(full, c, lanes, top0, place0);
    keep(full, c + lanes, lanes, top1, place1);
  }
  map_run(d, n - c, [&](auto part, int64_t i) HWY_ATTR {
    auto top = part.load(x + c + i);
    auto place = hn::Zero(integers), row = place;
    for (int64_t r = 1; r < rows; ++r) {
      const auto later = part.load(x + r * stride + c + i);
      row = hn::Add(row, step);
      const auto is = better(later, top);
      top = hn::IfThenElse(is, later, top);
      place = hn::IfThenElse(hn::RebindMask(integers, is), row, place);
    }
    keep(part, c + i, std::min(lanes, n - c - i), top, place);
  });
}

}  // namespace

reduce::ArgTable arg_table() {
  return {{&best_of_columns<false, float>, &best_of_columns<true, float>},
          {&best_of_columns<false, double>, &best_of_columns<true, double>},
          {&best_of_columns<false, int64_t>, &best_of_columns<true, int64_t>}};
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(arg_table);

template <>
reduce::BestOfColumns<float> reduce::best_of_columns(bool largest) {
  return DECKLE_SIMD(arg_table)().f32[largest];
}
template <>
reduce::BestOfColumns<double> reduce::best_of_columns(bool largest) {
  return DECKLE_SIMD(arg_table)().f64[largest];
}
template <>
reduce::BestOfColumns<int64_t> reduce::best_of_columns(bool largest) {
  return DECKLE_SIMD(arg_table)().i64[largest];
}

}  // namespace deckle::kernels::cpu
#endif
