// The next element of a run that is larger than a limit, or smaller: a comparison a vector.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/simd/beyond.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <tuple>

#include "deckle/kernels/cpu/simd/beyond.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::simd::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Whether a vector's elements are beyond; of floats not within, so that NaN is.
template <bool kBelow, class V>
HWY_INLINE hn::Mask<hn::DFromV<V>> is_beyond(V x, V limit) {
  if constexpr (hwy::IsFloat<hn::TFromV<V>>())
    return hn::Not(kBelow ? hn::Ge(x, limit) : hn::Le(x, limit));
  else
    return kBelow ? hn::Lt(x, limit) : hn::Gt(x, limit);
}

template <bool kBelow, typename T>
int64_t next(const T* x, int64_t begin, int64_t n, T limit) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto limits = hn::Set(d, limit);
  int64_t i = begin;
  for (; i + lanes <= n; i += lanes) {
    const auto mask = is_beyond<kBelow>(hn::LoadU(d, x + i), limits);
    if (const int64_t at = hn::FindFirstTrue(d, mask); at >= 0) return i + at;
  }
  for (; i < n; ++i) {
    if (!(kBelow ? x[i] >= limit : x[i] <= limit)) return i;
  }
  return n;
}

template <typename T>
int64_t next_of(const T* x, int64_t begin, int64_t n, T limit, bool below) {
  return below ? next<true>(x, begin, n, limit) : next<false>(x, begin, n, limit);
}

}  // namespace

const auto& beyond_table() {
  static constexpr std::tuple table(&next_of<float>, &next_of<double>, &next_of<int64_t>);
  return table;
}

}  // namespace deckle::kernels::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu::simd {

HWY_EXPORT(beyond_table);

template <typename T>
int64_t next_beyond(const T* x, int64_t begin, int64_t n, T limit, bool below) {
  return std::get<int64_t (*)(const T*, int64_t, int64_t, T, bool)>(DECKLE_SIMD(beyond_table)())(x, begin, n, limit, below);
}
template int64_t next_beyond(const float*, int64_t, int64_t, float, bool);
template int64_t next_beyond(const double*, int64_t, int64_t, double, bool);
template int64_t next_beyond(const int64_t*, int64_t, int64_t, int64_t, bool);

}  // namespace deckle::kernels::cpu::simd
#endif
