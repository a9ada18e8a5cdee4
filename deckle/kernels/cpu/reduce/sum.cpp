// sum and mean over any dims.                                                   Reads every element once (4 bytes, 1 FLOP)
//
// Memory-bound: the floor is bytes / bandwidth. Sums are formed as simd/rows.h says (blocks in vectors, blocks added in
// double with their errors), columns in vectors over 32 rows, then in double. Instances: float, double, int64_t.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/sum.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <optional>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/layout.h"
#include "deckle/kernels/cpu/reduce/values.h"
#include "deckle/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

template <typename T>
double row_sum(int64_t n, const T* x) {
  const hn::ScalableTag<T> d;
  return sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return part.load(x + i); });
}

template <typename T>
void column_sums(int64_t rows, int64_t row_stride, int64_t columns, const T* x, double* results) {
  constexpr int64_t kRows = 32;  // added in T before the sum goes to double
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN T sums[4 * hn::MaxLanes(d)];
  for (int64_t r = 0; r < rows; r += kRows, x += kRows * row_stride) {
    const int64_t deep = std::min(kRows, rows - r);
    int64_t c = 0;
    for (; c + 4 * lanes <= columns; c += 4 * lanes) {
      auto sum0 = hn::Zero(d), sum1 = hn::Zero(d), sum2 = hn::Zero(d), sum3 = hn::Zero(d);
      const T* from = x + c;
      for (int64_t i = 0; i < deep; ++i, from += row_stride) {
        sum0 = hn::Add(sum0, hn::LoadU(d, from));
        sum1 = hn::Add(sum1, hn::LoadU(d, from + lanes));
        sum2 = hn::Add(sum2, hn::LoadU(d, from + 2 * lanes));
        sum3 = hn::Add(sum3, hn::LoadU(d, from + 3 * lanes));
      }
      hn::Store(sum0, d, sums);
      hn::Store(sum1, d, sums + lanes);
      hn::Store(sum2, d, sums + 2 * lanes);
      hn::Store(sum3, d, sums + 3 * lanes);
      for (int64_t i = 0; i < 4 * lanes; ++i) results[c + i] += static_cast<double>(sums[i]);
    }
    map_run(d, columns - c, [&](auto part, int64_t i) HWY_ATTR {
      auto sum = hn::Zero(d);
      const T* from = x + c + i;
      for (int64_t row = 0; row < deep; ++row, from += row_stride) sum = hn::Add(sum, part.load(from));
      hn::Store(sum, d, sums);
      for (int64_t lane = 0; lane < std::min(lanes, columns - c - i); ++lane)
        results[c + i + lane] += static_cast<double>(sums[lane]);
    });
  }
}

int64_t integer_row_sum(int64_t n, const int64_t* x) {
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

void integer_column_sums(int64_t rows, int64_t row_stride, int64_t columns, const int64_t* x, int64_t* results) {
  for (int64_t r = 0; r < rows; ++r, x += row_stride) {
    for (int64_t c = 0; c < columns; ++c) results[c] += x[c];
  }
}

template <typename A>
A add(A a, A b) {
  return a + b;
}

}  // namespace

reduce::Folds sum_folds() {
  return {{{&row_sum<float>, &column_sums<float>, &add<double>, &reduce::scaled, 0},
           {&row_sum<double>, &column_sums<double>, &add<double>, &reduce::scaled, 0}},
          {&integer_row_sum, &integer_column_sums, &add<int64_t>, nullptr, 0}};
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(sum_folds);

void sum(const CpuContext&, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  reduce::fold(DECKLE_SIMD(sum_folds)(), self, dim.value_or(std::span<const int64_t>()), 1.0, result);
}

/// Of no elements: NaN.
void mean(const CpuContext&, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  const int64_t count = reduce::Layout(self, dim.value_or(std::span<const int64_t>())).length;
  reduce::fold(DECKLE_SIMD(sum_folds)(), self, dim.value_or(std::span<const int64_t>()), 1.0 / static_cast<double>(count),
               result);
}

}  // namespace deckle::kernels::cpu
#endif
