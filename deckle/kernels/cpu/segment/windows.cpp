// The largest elements of a few rows, column by column. Compiled once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/segment/windows.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "deckle/kernels/cpu/segment/windows.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
/// Numbers of rows, of the elements' size, as positions.
template <class D, class V>
HWY_INLINE void store_positions(D d, V rows, int64_t position, int64_t* to) {
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    hn::StoreU(hn::Add(rows, hn::Set(d, position)), d, to);
  } else {
    const hn::Half<D> half;
    const hn::Rebind<int64_t, decltype(half)> wide;
    const auto start = hn::Set(wide, position);
    hn::StoreU(hn::Add(hn::PromoteTo(wide, hn::LowerHalf(half, rows)), start), wide, to);
    hn::StoreU(hn::Add(hn::PromoteTo(wide, hn::UpperHalf(half, rows)), start), wide, to + hn::Lanes(wide));
  }
}
#endif

template <typename T>
void largest(const T* x, int64_t row_stride, int64_t count, int64_t columns, int64_t position, T* best, int64_t* positions) {
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> numbers;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; c + lanes <= columns; c += lanes) {
    auto top = hn::LoadU(d, x + c);
    auto row = hn::Zero(numbers);
    for (int64_t r = 1; r < count; ++r) {
      const auto value = hn::LoadU(d, x + r * row_stride + c);
      const auto better = hn::Or(hn::Gt(value, top), hn::And(hn::IsNaN(value), hn::Eq(top, top)));  // the first NaN wins
      top = hn::IfThenElse(better, value, top);
      const auto number = hn::Set(numbers, static_cast<hn::TFromD<decltype(numbers)>>(r));
      row = hn::IfThenElse(hn::RebindMask(numbers, better), number, row);
    }
    hn::StoreU(top, d, best + c);
    store_positions(numbers, row, position, positions + c);
  }
#endif
  for (; c < columns; ++c) {
    T top = x[c];
    int64_t row = 0;
    for (int64_t r = 1; r < count; ++r) {
      const T value = x[r * row_stride + c];
      if (!(value > top || (value != value && top == top))) continue;
      top = value;
      row = r;
    }
    best[c] = top;
    positions[c] = position + row;
  }
}

}  // namespace

void largest_float(const float* x, int64_t row_stride, int64_t count, int64_t columns, int64_t position, float* best,
                   int64_t* positions) {
  largest(x, row_stride, count, columns, position, best, positions);
}
void largest_double(const double* x, int64_t row_stride, int64_t count, int64_t columns, int64_t position, double* best,
                    int64_t* positions) {
  largest(x, row_stride, count, columns, position, best, positions);
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(largest_float);
HWY_EXPORT(largest_double);

void segment::largest_of_rows(const float* x, int64_t row_stride, int64_t count, int64_t columns, int64_t position, float* best,
                              int64_t* positions) {
  DECKLE_SIMD(largest_float)(x, row_stride, count, columns, position, best, positions);
}
void segment::largest_of_rows(const double* x, int64_t row_stride, int64_t count, int64_t columns, int64_t position, double* best,
                              int64_t* positions) {
  DECKLE_SIMD(largest_double)(x, row_stride, count, columns, position, best, positions);
}

}  // namespace deckle::kernels::cpu
#endif
