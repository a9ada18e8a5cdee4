// The loops of channel_norm over rows of columns: what they add up to, and what applies that.
#include "deckle/kernels/cpu/norm/channel_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/norm/channel_rows.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "deckle/kernels/cpu/simd/rows.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::HWY_NAMESPACE {
namespace {

/// What a block adds up to, in T, relative to `centre`, its rounded mean.
template <typename T>
struct BlockSums {
  T centre[kChannelStrip], rest[kChannelStrip], squares[kChannelStrip], gradient[kChannelStrip], along[kChannelStrip];
};

template <bool kBackward, typename T>
HWY_INLINE void sum_block(int64_t rows, int64_t n, int64_t stride, const T* x, const T* g, BlockSums<T>& sums) {
  const hn::ScalableTag<T> d;
  const auto share = hn::Set(d, static_cast<T>(1) / static_cast<T>(rows)), zero = hn::Zero(d);
  map_run(d, n, [&](auto part, int64_t c) HWY_ATTR {
    auto even = zero, odd = zero;
    int64_t r = 0;
    for (; r + 2 <= rows; r += 2) {
      even = hn::Add(even, part.load(x + r * stride + c));
      odd = hn::Add(odd, part.load(x + (r + 1) * stride + c));
    }
    if (r < rows) even = hn::Add(even, part.load(x + r * stride + c));
    const auto centre = hn::Mul(hn::Add(even, odd), share);
    auto rest0 = zero, rest1 = zero, squares0 = zero, squares1 = zero, plain0 = zero, plain1 = zero, along0 = zero, along1 = zero;
    const auto take = [&](int64_t row, auto& rest, auto& squares, auto& plain, auto& along) HWY_ATTR {
      const auto value = hn::Sub(part.load(x + row * stride + c), centre);
      rest = hn::Add(rest, value);
      squares = hn::MulAdd(value, value, squares);
      if constexpr (kBackward) {
        const auto gradient = part.load(g + row * stride + c);
        plain = hn::Add(plain, gradient);
        along = hn::MulAdd(gradient, value, along);
      }
    };
    r = 0;
    for (; r + 2 <= rows; r += 2) {
      take(r, rest0, squares0, plain0, along0);
      take(r + 1, rest1, squares1, plain1, along1);
    }
    if (r < rows) take(r, rest0, squares0, plain0, along0);
    part.store(centre, sums.centre + c);
    part.store(hn::Add(rest0, rest1), sums.rest + c);
    part.store(hn::Add(squares0, squares1), sums.squares + c);
    if constexpr (kBackward) {
      part.store(hn::Add(plain0, plain1), sums.gradient + c);
      part.store(hn::Add(along0, along1), sums.along + c);
    }
  });
}

template <bool kBackward, typename T>
HWY_NOINLINE void merge_block(int64_t rows, int64_t n, const BlockSums<T>& block, int64_t before, const ChannelSums& sums) {
  const auto deep = static_cast<double>(rows), count = deep + static_cast<double>(before);
  const double share = 1 / deep, weight = deep / count, both = static_cast<double>(before) * weight;
  const double* __restrict origin = sums.origin;
  double* __restrict mean = sums.mean, * __restrict squares = sums.squares;
  [[maybe_unused]] double* __restrict gradient = sums.gradient, * __restrict along = sums.along;
  for (int64_t c = 0; c < n; ++c) {
    const auto rest = static_cast<double>(block.rest[c]);
    const double centre = static_cast<double>(block.centre[c]) - origin[c];
    const double own = centre + rest * share, difference = own - mean[c];
    const double step = difference * weight, merged = before == 0 ? own : mean[c] + step;
    squares[c] += (static_cast<double>(block.squares[c]) - rest * rest * share) + difference * difference * both;
    if constexpr (kBackward) {
      // Both parts of sum g (x - mean) move to the merged mean.
      const auto plain = static_cast<double>(block.gradient[c]);
      const double moved = static_cast<double>(block.along[c]) + plain * (centre - merged);
      along[c] += moved - gradient[c] * (merged - mean[c]);
      gradient[c] += plain;
    }
    mean[c] = merged;
  }
}

template <typename T>
void add(int64_t rows, int64_t n, const T* x, const T* g, int64_t before, const ChannelSums& sums) {
  BlockSums<T> block;
  for (int64_t c = 0; c < n; c += kChannelStrip) {
    const int64_t wide = std::min(kChannelStrip, n - c);
    if (g == nullptr) {
      sum_block<false>(rows, wide, n, x + c, g, block);
      merge_block<false>(rows, wide, block, before, sums.at(c));
    } else {
      sum_block<true>(rows, wide, n, x + c, g + c, block);
      merge_block<true>(rows, wide, block, before, sums.at(c));
    }
  }
}

template <typename T>
void normalise(int64_t rows, int64_t n, const T* x, const T* mean, const T* scale, const T* offset, T* y) {
  const hn::ScalableTag<T> d;
  for (int64_t r = 0; r < rows; ++r, x += n, y += n) {
    map_run(d, n, [&](auto part, int64_t c) HWY_ATTR {
      const auto centred = hn::Sub(part.load(x + c), part.load(mean + c));
      part.store(hn::MulAdd(centred, part.load(scale + c), part.load(offset + c)), y + c);
    });
  }
}

template <typename T>
void gradient(int64_t rows, int64_t n, const T* g, const T* x, const T* mean, const T* slope, const T* offset, const T* scale,
              T* dx) {
  const hn::ScalableTag<T> d;
  for (int64_t r = 0; r < rows; ++r, g += n, x += n, dx += n) {
    map_run(d, n, [&](auto part, int64_t c) HWY_ATTR {
      const auto centred = hn::Sub(part.load(x + c), part.load(mean + c));
      const auto rest = hn::NegMulAdd(centred, part.load(slope + c), hn::Sub(part.load(g + c), part.load(offset + c)));
      part.store(hn::Mul(rest, part.load(scale + c)), dx + c);
    });
  }
}

}  // namespace

RealTable<ChannelRows> channel_table() {
  return {{&add<float>, &normalise<float>, &gradient<float>}, {&add<double>, &normalise<double>, &gradient<double>}};
}

}  // namespace deckle::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu {

HWY_EXPORT(channel_table);

RealTable<ChannelRows> channel_rows() { return DECKLE_SIMD(channel_table)(); }

}  // namespace deckle::kernels::cpu
#endif
