// prod over any dims.                                                           Reads every element once (4 bytes, 1 FLOP)
//
// A run is multiplied in double, by blocks of 32 vectors in four chains of vectors. Where a block's elements are neither tiny nor
// huge (kLeast, kMost) no chain leaves the range of double; chains and blocks are then joined as they are if that stays in range
// too, else as a mantissa and a power of two, and so are elements of other blocks one by one: no product overflows or vanishes on
// its way. Columns are multiplied in the same way, by blocks of 32 rows. Instances: float, double, int64_t.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/reduce/prod.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/reduce/values.h"
#include "deckle/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

constexpr double kLeast = 0x1p-31, kMost = 0x1p31;  // 32 of these multiply to 2^-992 and 2^992
constexpr int64_t kVectors = 4;

template <typename T>
HWY_INLINE hn::Vec<hn::ScalableTag<double>> load_wide(hn::ScalableTag<double> d, const T* x) {
  if constexpr (std::is_same_v<T, double>)
    return hn::LoadU(d, x);
  else
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, hn::ScalableTag<double>>(), x));
}

/// Whether no element is smaller or larger in size than the bounds; a NaN may be among them.
template <typename T>
HWY_INLINE bool bounded(int64_t n, const T* x) {
  const hn::ScalableTag<T> d;
  auto least = hn::Set(d, static_cast<T>(1)), most = least;
  map_run(d, n, [&](auto part, int64_t i) HWY_ATTR {
    const auto size = part.or_else(hn::Abs(part.load(x + i)), hn::Set(d, static_cast<T>(1)));
    least = hn::Min(least, size);
    most = hn::Max(most, size);
  });
  return hn::GetLane(hn::MinOfLanes(d, least)) >= static_cast<T>(kLeast) &&
         hn::GetLane(hn::MaxOfLanes(d, most)) <= static_cast<T>(kMost);
}

/// Whether all lanes are normal numbers.
template <class V>
HWY_INLINE bool all_normal(V x) {
  const hn::DFromV<V> d;
  const V size = hn::Abs(x);
  return hn::AllTrue(d, hn::And(hn::Ge(size, hn::Set(d, std::numeric_limits<double>::min())),
                                hn::Le(size, hn::Set(d, std::numeric_limits<double>::max()))));
}

/// The product of the lanes, in halves; whether all products on the way are normal numbers.
HWY_INLINE bool join(int64_t count, double* values) {
  bool normal = true;
  for (int64_t half = count / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) {
      values[i] *= values[i + half];
      normal = normal && std::isnormal(values[i]);
    }
  }
  return normal;
}

template <typename T>
reduce::ScaledProduct row_product(int64_t n, const T* x) {
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), step = kVectors * lanes, block = 32 * step;
  reduce::ScaledProduct product;
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t end = std::min(begin + block, n);
    if (!bounded(end - begin, x + begin)) {
      for (int64_t i = begin; i < end; ++i) product.multiply(static_cast<double>(x[i]));
      continue;
    }
    auto chain0 = hn::Set(d, 1.0), chain1 = chain0, chain2 = chain0, chain3 = chain0;
    int64_t i = begin;
    for (; i + step <= end; i += step) {
      chain0 = hn::Mul(chain0, load_wide(d, x + i));
      chain1 = hn::Mul(chain1, load_wide(d, x + i + lanes));
      chain2 = hn::Mul(chain2, load_wide(d, x + i + 2 * lanes));
      chain3 = hn::Mul(chain3, load_wide(d, x + i + 3 * lanes));
    }
    double rest = 1;
    for (; i < end; ++i) rest *= static_cast<double>(x[i]);
    const auto first = hn::Mul(chain0, chain1), second = hn::Mul(chain2, chain3), all = hn::Mul(first, second);
    HWY_ALIGN double joined[hn::MaxLanes(d)];
    hn::Store(all, d, joined);
    if (all_normal(first) && all_normal(second) && all_normal(all) && join(lanes, joined)) {
      if (n <= block && std::isnormal(joined[0] * rest)) return {joined[0] * rest, 0};
      product.multiply(joined[0]);
    } else {
      const auto one_by_one = [&](auto chain) HWY_ATTR {
        hn::Store(chain, d, joined);
        for (int64_t c = 0; c < lanes; ++c) product.multiply(joined[c]);
      };
      one_by_one(chain0);
      one_by_one(chain1);
      one_by_one(chain2);
      one_by_one(chain3);
    }
    product.multiply(rest);
  }
  return product;
}

/// products[c] = the product of column c of at most kDeep rows; whether all elements are within the bounds.
template <typename T>
bool block_products(const reduce::Rows<T>& rows, int64_t columns, double* products) {
  const hn::ScalableTag<double> d;
  const auto least = hn::Set(d, kLeast), most = hn::Set(d, kMost);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto within = hn::Eq(least, least);
  bool rest_within = true;
  std::fill_n(products, columns, 1.0);
  for (int64_t r = 0; r < rows.count; ++r) {
    const T* const row = rows.at(r);
    int64_t c = 0;
    for (; c + lanes <= columns; c += lanes) {
      const auto x = load_wide(d, row + c), size = hn::Abs(x);
      within = hn::And(within, hn::And(hn::Ge(size, least), hn::Le(size, most)));
      hn::StoreU(hn::Mul(hn::LoadU(d, products + c), x), d, products + c);
    }
    for (; c < columns; ++c) {
      const double x = static_cast<double>(row[c]);
      rest_within = rest_within && std::abs(x) >= kLeast && std::abs(x) <= kMost;
      products[c] *= x;
    }
  }
  return rest_within && hn::AllTrue(d, within);
}

template <typename T>
void column_products(const reduce::Rows<T>& rows, int64_t columns, reduce::ScaledProduct* results) {
  double products[reduce::kMostColumns];
  for (int64_t begin = 0; begin < rows.count; begin += reduce::kDeep) {
    const reduce::Rows<T> block = rows.part(begin, std::min(reduce::kDeep, rows.count - begin));
    if (block_products(block, columns, products)) {
      for (int64_t c = 0; c < columns; ++c) results[c].multiply(products[c]);
    } else {
      for (int64_t r = 0; r < block.count; ++r)
        for (int64_t c = 0; c < columns; ++c) results[c].multiply(static_cast<double>(block.at(r)[c]));
    }
  }
}

int64_t times_integers(int64_t a, int64_t b) {  // modulo 2^64
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t integer_row_product(int64_t n, const int64_t* x) {
  int64_t products[4] = {1, 1, 1, 1};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int64_t c = 0; c < 4; ++c) products[c] = times_integers(products[c], x[i + c]);
  }
  for (; i < n; ++i) products[0] = times_integers(products[0], x[i]);
  return times_integers(times_integers(products[0], products[1]), times_integers(products[2], products[3]));
}
void integer_column_products(const reduce::Rows<int64_t>& rows, int64_t columns, int64_t* results) {
  for (int64_t r = 0; r < rows.count; ++r) {
    const int64_t* const row = rows.at(r);
    for (int64_t c = 0; c < columns; ++c) results[c] = times_integers(results[c], row[c]);
  }
}

reduce::ScaledProduct times(reduce::ScaledProduct a, reduce::ScaledProduct b) {
  a.multiply(b);
  return a;
}
void values_of(int64_t n, const reduce::ScaledProduct* folded, double, double* values) {
  for (int64_t i = 0; i < n; ++i) values[i] = folded[i].value();
}

}  // namespace

reduce::Folds<reduce::ScaledProduct> product_folds() {
  return {{{&row_product<float>, &column_products<float>, &times, &values_of, {}},
           {&row_product<double>, &column_products<double>, &times, &values_of, {}}},
          {&integer_row_product, &integer_column_products, &times_integers, nullptr, 1}};
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(product_folds);

reduce::Folds<reduce::ScaledProduct> reduce::products() { return DECKLE_SIMD(product_folds)(); }

void prod(const Context&, const View& self, std::optional<std::span<const int64_t>> dim, bool, const View& result) {
  reduce::fold(reduce::products(), self, dim.value_or(std::span<const int64_t>()), 0, result);
}

}  // namespace deckle::kernels::cpu
#endif
