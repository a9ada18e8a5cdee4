// sum and mean over any dims.                                                   Reads every element once (4 bytes, 1 FLOP)
//
// Memory-bound: the limit is bytes / bandwidth. Summation follows simd/rows.h: blocks of a run, or of kDeep rows of columns, in
// vectors of T; blocks are added in compensated double. Instances: float, double, int64_t.
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
CompensatedSum row_sum(int64_t n, const T* x) {
  const hn::ScalableTag<T> d;
  return {sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return part.load(x + i); }), 0};
}

template <typename T>
void column_sums(const reduce::Rows<T>& rows, int64_t columns, CompensatedSum* results) {
  constexpr int64_t kBlocks = 8;  // of kDeep rows, added in double before their sum enters the compensated total
  const hn::ScalableTag<T> d;
  const auto add = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  T sums[reduce::kMostColumns];
  double wide[reduce::kMostColumns];
  for (int64_t begin = 0; begin < rows.count; begin += kBlocks * reduce::kDeep) {
    const int64_t end = std::min(begin + kBlocks * reduce::kDeep, rows.count);
    for (int64_t r = begin; r < end; r += reduce::kDeep) {
      fold_columns(d, rows.part(r, std::min(reduce::kDeep, end - r)), columns, T{0}, add, sums);
      if (r == begin) {
        for (int64_t c = 0; c < columns; ++c) wide[c] = static_cast<double>(sums[c]);
      } else {
        for (int64_t c = 0; c < columns; ++c) wide[c] += static_cast<double>(sums[c]);
      }
    }
    add_compensated(columns, wide, results);
  }
}

int64_t integer_row_sum(int64_t n, const int64_t* x) {
  int64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += x[i];
  return sum;
}

void integer_column_sums(const reduce::Rows<int64_t>& rows, int64_t columns, int64_t* results) {
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t* const row = rows.at(r);
    for (int64_t c = 0; c < columns; ++c) results[c] += row[c];
  }
}

CompensatedSum joined_sums(CompensatedSum a, CompensatedSum b) {
  a.add(b);
  return a;
}

int64_t plus_integers(int64_t a, int64_t b) { return a + b; }

void divided_sums(int64_t n, const CompensatedSum* folded, double divisor, double* values) {
  if (divisor == 1) {
    for (int64_t i = 0; i < n; ++i) values[i] = folded[i].total();
  } else {
    for (int64_t i = 0; i < n; ++i) values[i] = folded[i].total() / divisor;
  }
}

}  // namespace

reduce::Folds<CompensatedSum> sum_folds() {
  return {{{&row_sum<float>, &column_sums<float>, &joined_sums, &divided_sums, {}},
           {&row_sum<double>, &column_sums<double>, &joined_sums, &divided_sums, {}}},
          {&integer_row_sum, &integer_column_sums, &plus_integers, nullptr, 0}};
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(sum_folds);

reduce::Folds<CompensatedSum> reduce::sums() { return DECKLE_SIMD(sum_folds)(); }

void sum(const Context&, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  reduce::fold(reduce::sums(), self, dim.value_or(std::span<const int64_t>()), 1.0, result);
}

/// Of no elements: NaN.
void mean(const Context&, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  const int64_t count = reduce::Layout(self, dim.value_or(std::span<const int64_t>())).length;
  reduce::fold(reduce::sums(), self, dim.value_or(std::span<const int64_t>()), static_cast<double>(count), result);
}

}  // namespace deckle::kernels::cpu
#endif
