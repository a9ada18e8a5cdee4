// The sum of the products of two vectors' elements of one dtype.                     Reads both once (8 bytes, 2 FLOPs)
//
// Products are rounded to T and summed as reduce/sum.cpp sums elements, by pieces that are combined in order; a piece that leaves
// float is added again in double, products and all. Products of integers are taken modulo the range of their dtype, as an array
// of them would be, and added modulo 2^64.
// Instances: float (float32 and, widened in registers, the halves), double, int64_t, int32_t, uint8_t.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/dot.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <type_traits>

#include "deckle/base/error.h"
#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/simd/convert.h"
#include "deckle/kernels/cpu/simd/rows.h"

#ifndef DECKLE_KERNELS_CPU_REDUCE_DOT_ONCE
#define DECKLE_KERNELS_CPU_REDUCE_DOT_ONCE
namespace deckle::kernels::cpu {

/// The sum over n elements, in double or int64_t.
template <typename T>
using Dot = std::conditional_t<std::is_integral_v<T>, int64_t, double>(int64_t n, const T* x, const T* y);
using DotTable =
    std::tuple<Dot<float>*, Dot<double>*, Dot<bfloat16>*, Dot<float16>*, Dot<int64_t>*, Dot<int32_t>*, Dot<uint8_t>*>;

}  // namespace deckle::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

template <typename T, typename S = T>
double products(int64_t n, const S* x, const S* y) {
  const hn::ScalableTag<T> d;
  const double sum = sum_run(d, n, [&](auto part, int64_t i) HWY_ATTR { return hn::Mul(part.load(x + i), part.load(y + i)); });
  if (sizeof(T) == 8 || std::isfinite(sum)) return sum;
  CompensatedSum wide;
  for (int64_t i = 0; i < n; ++i) wide.add(static_cast<double>(x[i]) * static_cast<double>(y[i]));
  return wide.total();
}

template <typename T>
int64_t integer_products(int64_t n, const T* x, const T* y) {
  using Word = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  uint64_t sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += static_cast<uint64_t>(int64_t{static_cast<T>(static_cast<Word>(x[i]) * static_cast<Word>(y[i]))});
  return static_cast<int64_t>(sum);
}

}  // namespace

DotTable dot_table() {
  return {&products<float>,           &products<double>,          &products<float, bfloat16>, &products<float, float16>,
          &integer_products<int64_t>, &integer_products<int32_t>, &integer_products<uint8_t>};
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(dot_table);

namespace {

constexpr int64_t kPiece = 65536;  // elements of one partial sum

/// The sums of the pieces, in order, added up by add(value).
template <typename T, typename Add>
void add_pieces(const View& self, const View& other, Add add) {
  using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
  Dot<T>* const dot = std::get<Dot<T>*>(DECKLE_SIMD(dot_table)());
  const int64_t n = self.numel(), pieces = (n + kPiece - 1) / kPiece;
  Scratch scratch;
  Sum* const partial = scratch.take<Sum>(std::max<int64_t>(pieces, 1));
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t from = p * kPiece;
      partial[p] = dot(std::min(kPiece, n - from), self.ptr<const T>() + from, other.ptr<const T>() + from);
    }
  });
  for (int64_t p = 0; p < pieces; ++p) add(partial[p]);
}

}  // namespace

void sum_of_products(const Context&, const View& self, const View& other, const View& result) {
  visit(self.dtype, [&]<typename T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, bool>) {
      throw Error("the operands are bool (expected numbers)");
    } else if constexpr (std::is_integral_v<T>) {
      uint64_t sum = 0;
      add_pieces<T>(self, other, [&](int64_t value) { sum += static_cast<uint64_t>(value); });
      const auto value = static_cast<int64_t>(sum);
      simd::store_run(&value, 1, result.data, result.dtype, 1);
    } else {
      CompensatedSum total;
      add_pieces<T>(self, other, [&](double value) { total.add(value); });
      const double value = total.total();
      simd::store_run(&value, 1, result.data, result.dtype, 1);
    }
  });
}

}  // namespace deckle::kernels::cpu
#endif
