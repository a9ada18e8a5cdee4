// The next element of a run that is larger than a limit, or smaller: a comparison a vector.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/simd/beyond.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

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

int64_t next_float(const float* x, int64_t begin, int64_t n, float limit, bool below) {
  return next_of(x, begin, n, limit, below);
}
int64_t next_double(const double* x, int64_t begin, int64_t n, double limit, bool below) {
  return next_of(x, begin, n, limit, below);
}
int64_t next_integer(const int64_t* x, int64_t begin, int64_t n, int64_t limit, bool below) {
  return next_of(x, begin, n, limit, below);
}

}  // namespace deckle::kernels::cpu::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu::simd {

HWY_EXPORT(next_float);
HWY_EXPORT(next_double);
HWY_EXPORT(next_integer);

int64_t next_beyond(const float* x, int64_t begin, int64_t n, float limit, bool below) {
  return DECKLE_SIMD(next_float)(x, begin, n, limit, below);
}
int64_t next_beyond(const double* x, int64_t begin, int64_t n, double limit, bool below) {
  return DECKLE_SIMD(next_double)(x, begin, n, limit, below);
}
int64_t next_beyond(const int64_t* x, int64_t begin, int64_t n, int64_t limit, bool below) {
  return DECKLE_SIMD(next_integer)(x, begin, n, limit, below);
}

}  // namespace deckle::kernels::cpu::simd
#endif
