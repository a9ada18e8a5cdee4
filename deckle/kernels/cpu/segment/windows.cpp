// The largest elements of a few rows, column by column, gradients brought back to where these were, and sums of weighted rows.
// Compiled once per instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/segment/windows.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <type_traits>

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

#if HWY_TARGET != HWY_SCALAR
/// Numbers of rows counted from `position` on, in elements of the gradient's size; all ones where they do not fit.
template <class D>
HWY_INLINE hn::Vec<D> load_rows(D numbers, const int64_t* positions, int64_t position) {
  const hn::Repartition<int64_t, D> wide;
  const auto start = hn::Set(wide, position);
  const auto first = hn::Sub(hn::LoadU(wide, positions), start);
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return first;
  } else {
    const auto second = hn::Sub(hn::LoadU(wide, positions + hn::Lanes(wide)), start);
    const auto low = hn::ConcatEven(numbers, hn::BitCast(numbers, second), hn::BitCast(numbers, first));
    const auto high = hn::ConcatOdd(numbers, hn::BitCast(numbers, second), hn::BitCast(numbers, first));
    return hn::IfThenElse(hn::Eq(high, hn::Zero(numbers)), low, hn::Set(numbers, -1));
  }
}
#endif

template <typename T>
void put(const T* gradient, const int64_t* positions, int64_t columns, int64_t position, int64_t rows, T* result,
         int64_t row_stride) {
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> numbers;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; c + lanes <= columns; c += lanes) {
    const auto value = hn::LoadU(d, gradient + c);
    const auto chosen = load_rows(numbers, positions + c, position);
    for (int64_t r = 0; r < rows; ++r) {
      const auto number = hn::Set(numbers, static_cast<hn::TFromD<decltype(numbers)>>(r));
      hn::StoreU(hn::IfThenElseZero(hn::RebindMask(d, hn::Eq(chosen, number)), value), d, result + r * row_stride + c);
    }
  }
#endif
  for (; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) result[r * row_stride + c] = positions[c] == position + r ? gradient[c] : T{0};
  }
}

template <typename T>
void sum_at(const T* gradients, int64_t stride, const int64_t* positions, int64_t positions_stride, int64_t count,
            int64_t columns, int64_t position, T* result) {
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<double> d;
  const hn::RebindToSigned<decltype(d)> numbers;
  const hn::Rebind<T, decltype(d)> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto here = hn::Set(numbers, position);
  for (; c + lanes <= columns; c += lanes) {
    auto sum = hn::Zero(d);
    for (int64_t w = 0; w < count; ++w) {
      const auto chosen = hn::RebindMask(d, hn::Eq(hn::LoadU(numbers, positions + w * positions_stride + c), here));
      const auto value = hn::LoadU(narrow, gradients + w * stride + c);
      if constexpr (std::is_same_v<T, double>)
        sum = hn::Add(sum, hn::IfThenElseZero(chosen, value));
      else
        sum = hn::Add(sum, hn::IfThenElseZero(chosen, hn::PromoteTo(d, value)));
    }
    if constexpr (std::is_same_v<T, double>)
      hn::StoreU(sum, d, result + c);
    else
      hn::StoreU(hn::DemoteTo(narrow, sum), narrow, result + c);
  }
#endif
  for (; c < columns; ++c) {
    double sum = 0;
    for (int64_t w = 0; w < count; ++w) sum += positions[w * positions_stride + c] == position ? gradients[w * stride + c] : T{0};
    result[c] = static_cast<T>(sum);
  }
}

#if HWY_TARGET != HWY_SCALAR
template <int kVectors, class D, typename T, typename R>
HWY_INLINE void sum_vectors(D d, const T* rows, int64_t stride, const double* weights, int64_t count, R* result) {
  const hn::Rebind<T, D> elements;
  const hn::Rebind<R, D> narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<D> sums[kVectors];
  for (int i = 0; i < kVectors; ++i) sums[i] = hn::Zero(d);
  for (int64_t r = 0; r < count; ++r) {
    const auto weight = hn::Set(d, weights[r]);
    for (int i = 0; i < kVectors; ++i) {
      const auto value = hn::LoadU(elements, rows + r * stride + i * lanes);
      if constexpr (std::is_same_v<T, double>)
        sums[i] = hn::MulAdd(value, weight, sums[i]);
      else
        sums[i] = hn::MulAdd(hn::PromoteTo(d, value), weight, sums[i]);
    }
  }
  for (int i = 0; i < kVectors; ++i) {
    if constexpr (std::is_same_v<R, double>)
      hn::StoreU(sums[i], d, result + i * lanes);
    else
      hn::StoreU(hn::DemoteTo(narrow, sums[i]), narrow, result + i * lanes);
  }
}
#endif

template <typename T, typename R>
void weighted_sum(const T* rows, int64_t stride, const double* weights, int64_t count, int64_t columns, R* result) {
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; c + 4 * lanes <= columns; c += 4 * lanes) sum_vectors<4>(d, rows + c, stride, weights, count, result + c);
  for (; c + lanes <= columns; c += lanes) sum_vectors<1>(d, rows + c, stride, weights, count, result + c);
#endif
  for (; c < columns; ++c) {
    double sum = 0;
    for (int64_t r = 0; r < count; ++r) sum += static_cast<double>(rows[r * stride + c]) * weights[r];
    result[c] = static_cast<R>(sum);
  }
}

template <typename T>
constexpr segment::WindowRows<T> kFunctions{&largest<T>, &put<T>, &sum_at<T>, &weighted_sum<T, T>, &weighted_sum<T, double>};

}  // namespace

const RealTable<segment::WindowRows>& window_table() {
  static constexpr RealTable<segment::WindowRows> table{kFunctions<float>, kFunctions<double>};
  return table;
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(window_table);

const RealTable<segment::WindowRows>& segment::window_rows() { return DECKLE_SIMD(window_table)(); }

}  // namespace deckle::kernels::cpu
#endif
