// For each element the product of all others of its row.                          Reads and writes every element once or twice
//
// A row's product, a mantissa and a power of two (reduce/prod.cpp), is divided by each element. That is wrong where an element is
// zero, infinite or NaN, and inexact where it is nearly so: then products of the elements before and after are multiplied; of a
// row with zeros, and finite, all results are zeros but for that of a single one. Instances: float (float32 and the halves),
// double.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/others.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/by_rows.h"
#include "deckle/kernels/cpu/reduce/values.h"
#include "deckle/kernels/cpu/simd/math_basic.h"
#include "deckle/kernels/cpu/simd/rows.h"
#include "deckle/kernels/cpu/simd/table.h"

#ifndef DECKLE_KERNELS_CPU_REDUCE_OTHERS_ONCE
#define DECKLE_KERNELS_CPU_REDUCE_OTHERS_ONCE
namespace deckle::kernels::cpu {

template <typename T>
struct Quotients {
  /// y = (mantissa / x) first second, rounded to T.
  void (*divide)(int64_t n, double mantissa, double first, double second, const T* x, T* y);
};

}  // namespace deckle::kernels::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

template <typename T>
void divide(int64_t n, double mantissa, double first, double second, const T* x, T* y) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<T, decltype(d)> part;
  const auto mantissas = hn::Set(d, mantissa), firsts = hn::Set(d, first), seconds = hn::Set(d, second);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    if constexpr (std::is_same_v<T, double>) {
      const auto quotient = hn::Div(mantissas, hn::LoadU(d, x + i));
      hn::StoreU(hn::Mul(hn::Mul(quotient, firsts), seconds), d, y + i);
    } else {
      const auto quotient = hn::Div(mantissas, hn::PromoteTo(d, hn::LoadU(part, x + i)));
      hn::StoreU(narrow(part, hn::Mul(hn::Mul(quotient, firsts), seconds)), part, y + i);
    }
  }
  for (; i < n; ++i) y[i] = static_cast<T>(mantissa / static_cast<double>(x[i]) * first * second);
}

}  // namespace

RealTable<Quotients> quotient_table() { return {{&divide<float>}, {&divide<double>}}; }

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(quotient_table);

namespace {

using reduce::ScaledProduct;

/// Products of the elements before and after each, of any row.
template <typename T>
void by_both_sides(int64_t n, const T* x, T* y) {
  Scratch scratch;
  auto* const before = scratch.take<ScaledProduct>(n);
  ScaledProduct product;
  for (int64_t i = 0; i < n; ++i) {
    before[i] = product;
    product.multiply(static_cast<double>(x[i]));
  }
  product = {};
  for (int64_t i = n; i-- > 0;) {
    before[i].multiply(product);
    y[i] = static_cast<T>(before[i].value());
    product.multiply(static_cast<double>(x[i]));
  }
}

/// A finite row with zeros.
template <typename T>
void beside_zeros(int64_t n, const T* x, T* y) {
  int64_t zeros = 0, at = 0;
  bool negative = false;
  for (int64_t i = 0; i < n; ++i) {
    negative = negative != std::signbit(x[i]);
    if (x[i] == 0) ++zeros, at = i;
  }
  for (int64_t i = 0; i < n; ++i) y[i] = negative != std::signbit(x[i]) ? T(-0.0) : T(0.0);
  if (zeros > 1) return;
  ScaledProduct product = reduce::products().of<T>().row(at, x);
  product.multiply(reduce::products().of<T>().row(n - at - 1, x + at + 1));
  y[at] = static_cast<T>(product.value());
}

template <typename T>
void others(int64_t n, const T* x, T* y) {
  constexpr double kMost = std::is_same_v<T, float> ? 0x1p200 : 0x1p900;  // of a double: quotients stay normal
  const ScaledProduct all = reduce::products().of<T>().row(n, x);
  double least = kMost, most = 0;
  bool finite = true;
  if (!std::is_same_v<T, float> || !(std::isfinite(all.mantissa) && all.mantissa != 0)) {
    for (int64_t i = 0; i < n; ++i) {
      const double size = std::abs(static_cast<double>(x[i]));
      least = std::min(least, size);
      most = std::max(most, size);
      finite = finite && size <= std::numeric_limits<T>::max();
    }
  }
  if (finite && least == 0) return beside_zeros(n, x, y);
  if (!std::isfinite(all.mantissa) || all.mantissa == 0 || least < 1 / kMost || most > kMost) return by_both_sides(n, x, y);
  int exponent = 0;
  const double mantissa = std::frexp(all.mantissa, &exponent);
  const int power = static_cast<int>(std::clamp<int64_t>(all.exponent + exponent, -2000, 2000)), half = power / 2;
  // Of floats, too: the first product may be beyond float, the second one is what is rounded.
  DECKLE_SIMD(quotient_table)().of<T>().divide(n, mantissa, std::ldexp(1.0, half), std::ldexp(1.0, power - half), x, y);
}

}  // namespace

void others_of_rows(const Context&, const View& self, std::optional<std::span<const int64_t>> dim, const View& result) {
  const std::span<const int64_t> dims = dim.value_or(std::span<const int64_t>());
  const reduce::Layout from(self, dims), to(result, dims);
  if (self.numel() == 0) return;
  simd::visit_compute(self.dtype, [&]<typename T>(TypeTag<T>) {
    if constexpr (!std::is_same_v<T, int64_t>)
      reduce::map_rows<T>(self, from, result, to, [&](int64_t, const T* x, T* y) { others(from.length, x, y); });
  });
}

}  // namespace deckle::kernels::cpu
#endif
