// Running sums with their rounding errors.
//
// A running sum is a chain of additions, three to four cycles each. That of the errors is a second one; what an addition lost is
// known from the sums before and after it, element by element, in vectors. So a block goes through three steps: its sums; what
// they lost; the errors and results, whose chain runs beside that of the next block's sums. Several rows are chains of vectors.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/running_sums.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>

#include "deckle/kernels/cpu/reduce/running_sums.h"
#include "deckle/kernels/cpu/simd/math_basic.h"
#include "deckle/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {
namespace hn = ::hwy::HWY_NAMESPACE;

constexpr int64_t kBlock = 64;

/// What `next` = before + value lost (Knuth's two-sum, exact); nothing where the sum is not finite.
HWY_INLINE double lost(double before, double value, double next) {
  const double added = next - before, error = (before - (next - added)) + (value - added);
  return error == error ? error : 0.0;
}

template <class D, class V>
HWY_INLINE hn::Vec<D> widen(D d, V value) {
  if constexpr (std::is_same_v<hn::TFromV<V>, double>)
    return value;
  else
    return hn::PromoteTo(d, value);
}

/// Element i of a run, from its end if `kReverse`.
template <bool kReverse, typename T>
struct Run {
  T* first;
  int64_t n;
  HWY_INLINE T& operator[](int64_t i) const { return first[kReverse ? n - 1 - i : i]; }
};

template <bool kReverse, typename T>
void running_row(int64_t n, CompensatedSum start, const T* from, T* to) {
  const Run<kReverse, const T> x{from, n};
  const Run<kReverse, T> y{to, n};
  double sums[2][kBlock + 1], errors[kBlock], losses[kBlock];
  double sum = start.sum, error = start.error;
  int64_t previous = 0;  // elements of the block before
  for (int64_t begin = 0; begin < n || previous > 0; begin += kBlock) {
    const int64_t size = std::clamp<int64_t>(n - begin, 0, kBlock), both = std::min(previous, size);
    double* const now = sums[begin / kBlock & 1];
    const double* const before = sums[(begin / kBlock & 1) ^ 1];
    now[0] = sum;
    int64_t i = 0;
    for (; i < both; ++i) {
      now[i + 1] = sum += static_cast<double>(x[begin + i]);
      errors[i] = error += losses[i];
    }
    for (int64_t k = i; k < size; ++k) now[k + 1] = sum += static_cast<double>(x[begin + k]);
    for (int64_t k = i; k < previous; ++k) errors[k] = error += losses[k];
    for (int64_t k = 0; k < previous; ++k) y[begin - kBlock + k] = static_cast<T>(before[k + 1] + errors[k]);
    for (int64_t k = 0; k < size; ++k) losses[k] = lost(now[k], static_cast<double>(x[begin + k]), now[k + 1]);
    previous = size;
  }
}

template <typename T>
void row(int64_t n, bool reverse, CompensatedSum start, const T* x, T* y) {
  reverse ? running_row<true>(n, start, x, y) : running_row<false>(n, start, x, y);
}

#if HWY_TARGET != HWY_SCALAR
/// As many rows as a vector has lanes, side by side: squares of them are transposed in registers, where their sums are chains of
/// vectors. Each pass of the transpose takes every other element of two neighbours.
template <class D, class V>
HWY_INLINE void transpose_square(D d, V* square) {
  constexpr size_t kSide = hn::MaxLanes(d);
  V passed[kSide];
  for (size_t pass = 1; pass < kSide; pass *= 2) {
    HWY_UNROLL(8)
    for (size_t i = 0; i < kSide / 2; ++i) {
      passed[i] = hn::ConcatEven(d, square[2 * i + 1], square[2 * i]);
      passed[i + kSide / 2] = hn::ConcatOdd(d, square[2 * i + 1], square[2 * i]);
    }
    HWY_UNROLL(8)
    for (size_t i = 0; i < kSide; ++i) square[i] = passed[i];
  }
}

/// Elements k, k + 1 ... of as many rows as there are lanes, as `square` has them: [k][row].
template <class D, class V, typename T>
HWY_INLINE void load_square(D d, const reduce::RowsOf<const T>& x, int64_t row, int64_t k, V* square) {
  const hn::Rebind<T, D> part;
  const T* const from = x.first + row * x.row + k * x.next;
  const int64_t apart = x.next == 1 ? x.row : x.next;
  HWY_UNROLL(8)
  for (int64_t i = 0; i < static_cast<int64_t>(hn::MaxLanes(d)); ++i) square[i] = widen(d, hn::LoadU(part, from + i * apart));
  if (x.next == 1) transpose_square(d, square);
}
template <class D, class V, typename T>
HWY_INLINE void store_square(D d, V* square, const reduce::RowsOf<T>& y, int64_t row, int64_t k) {
  const hn::Rebind<T, D> part;
  T* const to = y.first + row * y.row + k * y.next;
  const int64_t apart = y.next == 1 ? y.row : y.next;
  if (y.next == 1) transpose_square(d, square);
  HWY_UNROLL(8)
  for (int64_t i = 0; i < static_cast<int64_t>(hn::MaxLanes(d)); ++i) hn::StoreU(narrow(part, square[i]), part, to + i * apart);
}

/// Rows from `row` on, as many as there are lanes.
template <bool kReverse, typename T>
void running_squares(int64_t row, int64_t length, const reduce::RowsOf<const T>& x, const reduce::RowsOf<T>& y) {
  const hn::ScalableTag<double> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kSide = static_cast<int64_t>(hn::MaxLanes(d));
  auto sum = hn::Zero(d), error = sum;
  const auto run = [&](V* square) HWY_ATTR {
    HWY_UNROLL(8)
    for (int64_t k = 0; k < kSide; ++k) {
      V& value = square[kReverse ? kSide - 1 - k : k];
      add_compensated(value, sum, error);
      value = hn::Add(sum, error);
    }
  };
  const int64_t whole = length / kSide * kSide, rest = length - whole;
  const auto run_rest = [&] HWY_ATTR {
    if (rest == 0) return;
    T some[kSide * kSide] = {};
    const reduce::RowsOf<T> spare{some, kSide, 1};
    for (int64_t i = 0; i < kSide; ++i) {
      for (int64_t k = 0; k < rest; ++k) some[i * kSide + k] = x.first[(row + i) * x.row + (whole + k) * x.next];
    }
    V square[kSide];
    load_square(d, reduce::RowsOf<const T>{some, kSide, 1}, 0, 0, square);
    run(square);
    store_square(d, square, spare, 0, 0);
    for (int64_t i = 0; i < kSide; ++i) {
      for (int64_t k = 0; k < rest; ++k) y.first[(row + i) * y.row + (whole + k) * y.next] = some[i * kSide + k];
    }
  };
  if constexpr (kReverse) run_rest();
  for (int64_t k = 0; k < whole; k += kSide) {
    const int64_t at = kReverse ? whole - kSide - k : k;
    V square[kSide];
    load_square(d, x, row, at, square);
    run(square);
    store_square(d, square, y, row, at);
  }
  if constexpr (!kReverse) run_rest();
}
#endif

template <typename T>
bool rows(int64_t count, int64_t length, bool reverse, const reduce::RowsOf<const T>& x, const reduce::RowsOf<T>& y) {
#if HWY_TARGET != HWY_SCALAR
  constexpr int64_t kSide = static_cast<int64_t>(hn::MaxLanes(hn::ScalableTag<double>()));
  if (count < kSide) return false;
  for (int64_t r = 0; r < count; r += kSide) {
    const int64_t at = std::min(r, count - kSide);  // the last ones once more, with the same results
    reverse ? running_squares<true>(at, length, x, y) : running_squares<false>(at, length, x, y);
  }
  return true;
#else
  (void)count, (void)length, (void)reverse, (void)x, (void)y;
  return false;
#endif
}

template <typename T>
CompensatedSum total(int64_t n, const T* x) {
  constexpr int64_t kLanes = 16;
  double sums[kLanes] = {}, errors[kLanes] = {};
  const auto add = [&](int64_t lane, double value) HWY_ATTR {
    const double next = sums[lane] + value;
    errors[lane] += lost(sums[lane], value, next);
    sums[lane] = next;
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) add(lane, static_cast<double>(x[i + lane]));
  }
  for (int64_t lane = 0; i < n; ++i, ++lane) add(lane, static_cast<double>(x[i]));
  CompensatedSum result;
  for (int64_t lane = 0; lane < kLanes; ++lane) result.add(CompensatedSum{sums[lane], errors[lane]});
  return result;
}

template <typename T>
void columns(int64_t count, const T* x, double* sums, double* errors, T* y) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<T, decltype(d)> part;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= count; c += lanes) {
    auto sum = hn::LoadU(d, sums + c), error = hn::LoadU(d, errors + c);
    add_compensated(load_wide(d, x + c), sum, error);
    hn::StoreU(sum, d, sums + c);
    hn::StoreU(error, d, errors + c);
    hn::StoreU(narrow(part, hn::Add(sum, error)), part, y + c);
  }
  for (; c < count; ++c) {
    const double value = static_cast<double>(x[c]), next = sums[c] + value;
    errors[c] += lost(sums[c], value, next);
    sums[c] = next;
    y[c] = static_cast<T>(next + errors[c]);
  }
}

}  // namespace

RealTable<reduce::RunningSums> running_sum_table() {
  return {{&row<float>, &rows<float>, &total<float>, &columns<float>},
          {&row<double>, &rows<double>, &total<double>, &columns<double>}};
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(running_sum_table);

RealTable<reduce::RunningSums> reduce::running_sums() { return DECKLE_SIMD(running_sum_table)(); }

}  // namespace deckle::kernels::cpu
#endif
