// Standard normal, by the Box-Muller transform of two adjacent uniform numbers in float64:
//   r = sqrt(-2 ln u), (r cos 2 pi v, r sin 2 pi v), u in (0, 1] by steps of 2^-32, so |x| <= 6.67; for float64 results u and v
// take two words each, by steps of 2^-53, so |x| <= 8.58.
//
// About 70 FLOPs a pair. The same bits come out on every instruction set: products and sums are rounded one by one, never fused
// (this file is compiled with -ffp-contract=off).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/random/randn.cpp"
#include "deckle/kernels/cpu/simd/targets.h"
// After targets.h.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstdint>
#include <iterator>

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::random::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using V = hn::Vec<D>;

/// c[0] + x (c[1] + x (c[2] + ...)).
template <size_t N>
HWY_INLINE V polynomial(D d, V x, const double (&c)[N]) {
  V value = hn::Set(d, c[N - 1]);
  for (size_t i = N - 1; i-- > 0;) value = hn::Add(hn::Mul(value, x), hn::Set(d, c[i]));
  return value;
}

/// Of a normal x > 0: x = 2^e m, m in [sqrt 1/2, sqrt 2), ln m = 2 artanh s, s = (m - 1) / (m + 1).
HWY_INLINE V logarithm(D d, V x) {
  constexpr double kArtanh[] = {2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  const hn::RebindToSigned<D> di;
  const auto root = hn::Set(di, int64_t{0x3FE6A09E667F3BCD});  // the bits of sqrt 1/2
  const auto bits = hn::BitCast(di, x), e = hn::ShiftRight<52>(hn::Sub(bits, root));
  const V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<52>(e)));
  const V magic = hn::Set(d, 0x1.8p52), exponent = hn::Sub(hn::BitCast(d, hn::Add(e, hn::BitCast(di, magic))), magic);
  const V one = hn::Set(d, 1.0), s = hn::Div(hn::Sub(m, one), hn::Add(m, one)), z = hn::Mul(s, s);
  const V rest = hn::Mul(hn::Mul(s, z), polynomial(d, z, kArtanh)), two_s = hn::Add(s, s);
  const V low = hn::Add(rest, hn::Mul(exponent, hn::Set(d, 0x1.ef35793c76730p-45)));  // the rest of ln 2
  return hn::Add(hn::Mul(exponent, hn::Set(d, 0x1.62e42fefa3800p-1)), hn::Add(two_s, low));
}

/// count is a multiple of the lanes.
void normal_pairs(int64_t count, const double* u, const double* turns, double* first, double* second) {
  constexpr double kSine[] = {-1.0 / 6,          1.0 / 120,          -1.0 / 5040,           1.0 / 362880,
                              -1.0 / 39916800.0, 1.0 / 6227020800.0, -1.0 / 1307674368000.0};
  constexpr double kCosine[] = {-1.0 / 2,         1.0 / 24,          -1.0 / 720,           1.0 / 40320,
                                -1.0 / 3628800.0, 1.0 / 479001600.0, -1.0 / 87178291200.0, 1.0 / 20922789888000.0};
  const D d;
  const hn::RebindToUnsigned<D> du;
  const V magic = hn::Set(d, 0x1.8p52), one = hn::Set(d, 1.0);
  for (int64_t i = 0; i < count; i += static_cast<int64_t>(hn::Lanes(d))) {
    const V radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), logarithm(d, hn::Load(d, u + i))));
    // The nearest quarter of a turn, and the angle from there, at most pi / 4.
    const V turn = hn::Load(d, turns + i), shifted = hn::Add(hn::Mul(turn, hn::Set(d, 4.0)), magic);
    const V angle = hn::Mul(hn::Sub(turn, hn::Mul(hn::Sub(shifted, magic), hn::Set(d, 0.25))), hn::Set(d, 0x1.921fb54442d18p2));
    const V z = hn::Mul(angle, angle);
    const V sine = hn::Add(angle, hn::Mul(hn::Mul(angle, z), polynomial(d, z, kSine)));
    const V cosine = hn::Add(one, hn::Mul(z, polynomial(d, z, kCosine)));
    const auto quarter = hn::BitCast(du, shifted);
    const V odd = hn::BitCast(d, hn::ShiftLeft<63>(quarter)), sign = hn::Set(d, -0.0);  // bits in the place of the sign
    const V second_half = hn::BitCast(d, hn::ShiftLeft<62>(quarter));
    const auto even = hn::RebindMask(d, hn::Eq(hn::ShiftLeft<63>(quarter), hn::Zero(du)));
    // cos (a + q pi/2): cos, -sin, -cos, sin; sin (a + q pi/2): sin, cos, -sin, -cos
    const V c = hn::IfThenElse(even, cosine, sine), s = hn::IfThenElse(even, sine, cosine);
    hn::Store(hn::Mul(radius, hn::Xor(c, hn::And(hn::Xor(odd, second_half), sign))), d, first + i);
    hn::Store(hn::Mul(radius, hn::Xor(s, hn::And(second_half, sign))), d, second + i);
  }
}

}  // namespace

decltype(&normal_pairs) pairs_function() { return &normal_pairs; }

}  // namespace deckle::kernels::cpu::random::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <span>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/random/words.h"
#include "deckle/kernels/cpu/simd/convert_element.h"

namespace deckle::kernels::cpu {

namespace random {

HWY_EXPORT(pairs_function);

}  // namespace random

using namespace random;

void randn(const Context&, std::span<const int64_t>, DType, PhiloxStream stream, const View& result) {
  const auto normal_pairs = DECKLE_SIMD(pairs_function)();
  visit_floating(result.dtype, [&]<typename T>(TypeTag<T>) {
    T* to = result.ptr<T>();
    constexpr int64_t kWords = std::is_same_v<T, double> ? 2 : 1;  // of one element
    constexpr int64_t kPairs = kWordsAtOnce / (2 * kWords);
    const int64_t count = result.numel();
    for_each_word(stream, kWords * count, [&](int64_t begin, int64_t end, const uint32_t* words) {
      alignas(64) double u[kPairs], turns[kPairs], first[kPairs], second[kPairs];
      const int64_t pairs = ((end - begin) / kWords + 1) / 2;  // the words of a pair stand in one block of four
      for (int64_t i = 0; i < pairs; ++i) {
        const uint32_t* const pair = words + 2 * kWords * i;
        u[i] = kWords == 2 ? 1.0 - uniform_of_two(pair) : (static_cast<double>(pair[0]) + 1.0) * 0x1p-32;
        turns[i] = kWords == 2 ? uniform_of_two(pair + 2) : static_cast<double>(pair[1]) * 0x1p-32;
      }
      constexpr int64_t kMostLanes = 16;
      const int64_t padded = std::min(kPairs, (pairs + kMostLanes - 1) / kMostLanes * kMostLanes);
      for (int64_t i = pairs; i < padded; ++i) u[i] = 1, turns[i] = 0;
      normal_pairs(padded, u, turns, first, second);
      T* const out = to + begin / kWords;
      const int64_t left = count - begin / kWords;
      for (int64_t i = 0; i < pairs; ++i) {
        out[2 * i] = simd::convert<T>(first[i]);
        if (2 * i + 1 < left) out[2 * i + 1] = simd::convert<T>(second[i]);
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
#endif
