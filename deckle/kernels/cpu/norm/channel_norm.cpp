// channel_norm, columns of a matrix normalised over its rows, and its backward.                       x, g: [rows, n]; w, b: [n]
//
//   xh = r (x - mean x),  r = 1 / sqrt(mean (x - mean x)^2 + eps)      y = xh w + b           means over the rows of a column
//   backward: dx = w r (g - mean g - xh mean(g xh)), dw = sum g xh, db = sum g
// Two passes over memory, each in the order in which it lies: statistics of pieces of rows, then the result. In a piece, blocks
// of kDeep rows, read a second time from the second cache, have a mean of their own, rounded to T, from which deviations are
// taken: as accurate for columns far from zero as for others. Blocks and pieces are merged in double, by Chan's formula, in
// order. Where squares in float overflow or underflow beside eps everything is computed in double. Instances: float (float32 and
// the halves, widened by the block), double.
// Versions, 1024 x 1024, forward and backward in ratio to PyTorch's time (two cores of an Emerald Rapids, 2026-11-28):
//   ops one after another (measured at 0da05677)    float32 1.59, 2.13   bfloat16 2.22, 3.23   float64 1.85, 2.56
//   this                                            float32 0.58, 0.66   bfloat16 0.79, 0.82   float64 0.79, 0.68
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/norm/channel_norm.cpp"
#include "deckle/kernels/cpu/simd/targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/simd/convert.h"
#include "deckle/kernels/cpu/simd/rows.h"
#include "deckle/kernels/cpu/simd/table.h"

#ifndef DECKLE_KERNELS_CPU_NORM_CHANNEL_NORM_ONCE
#define DECKLE_KERNELS_CPU_NORM_CHANNEL_NORM_ONCE
namespace deckle::kernels::cpu {

/// Sums over rows of a column: its mean less its first element, `origin`, and squared deviations, and, backward, the sums of g
/// and of g (x - mean).
struct ChannelSums {
  const double* origin;
  double *mean, *squares;
  double *gradient = nullptr, *along = nullptr;

  ChannelSums at(int64_t column) const {
    return {origin + column, mean + column, squares + column, gradient == nullptr ? nullptr : gradient + column,
            along == nullptr ? nullptr : along + column};
  }
};

/// Rows of n columns that follow one another; a and others have a number for each column.
template <typename T>
struct ChannelRows {
  /// Merges `rows` rows with what `sums` has of `before` others; g may be null.
  void (*add)(int64_t rows, int64_t n, const T* x, const T* g, int64_t before, const ChannelSums& sums);
  /// y = (x - mean) scale + offset
  void (*normalise)(int64_t rows, int64_t n, const T* x, const T* mean, const T* scale, const T* offset, T* y);
  /// dx = scale (g - (x - mean) slope - offset)
  void (*gradient)(int64_t rows, int64_t n, const T* g, const T* x, const T* mean, const T* slope, const T* offset,
                   const T* scale, T* dx);
};

inline constexpr int64_t kChannelDeep = 32;    // rows of a block
inline constexpr int64_t kChannelStrip = 512;  // columns merged at a time

}  // namespace deckle::kernels::cpu
#endif

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

namespace {

constexpr int64_t kGrain = 65536;  // elements of a piece, at least
constexpr int64_t kMostPieces = 64;
constexpr int64_t kRangeGrain = 16384;  // elements of a range of results

/// Consecutive rows as T: in place, or in a buffer.
template <typename T>
class Block {
 public:
  Block(const View& view, int64_t n) : view_(view), n_(n) {
    if (!direct()) buffer_ = scratch_.take<T>(kChannelDeep * n);
  }
  T* at(int64_t row) const { return direct() ? view_.ptr<T>() + row * n_ : buffer_; }
  const T* read(int64_t row, int64_t rows) const {
    if (!direct()) simd::load_run(place(row), view_.dtype, 1, rows * n_, buffer_);
    return at(row);
  }
  void finish(int64_t row, int64_t rows) const {
    if (!direct()) simd::store_run(buffer_, rows * n_, place(row), view_.dtype, 1);
  }

 private:
  bool direct() const { return view_.dtype == dtype_of<T>; }
  char* place(int64_t row) const { return static_cast<char*>(view_.data) + row * n_ * item_size(view_.dtype); }

  const View& view_;
  int64_t n_;
  Scratch scratch_;
  T* buffer_ = nullptr;
};

/// body(first row, number of rows) for blocks of rows.
template <typename Body>
void for_blocks(int64_t begin, int64_t end, Body body) {
  for (int64_t row = begin; row < end; row += kChannelDeep) body(row, std::min(kChannelDeep, end - row));
}

/// The sums of all rows of a matrix, and in which type it is computed on: float unless squares left its range.
class Channels {
 public:
  /// `gradient` may be null.
  Channels(const View& self, const View* gradient, double eps) : n_(self.sizes[1]), rows_(self.sizes[0]), eps_(eps) {
    origin_ = scratch_.take<double>(n_);
    if (rows_ > 0) simd::load_run(self.data, self.dtype, 1, n_, origin_);
    sums_ = take_sums(gradient != nullptr);
    if (self.dtype == DType::float64) {
      add_all<double>(self, gradient);
    } else {
      add_all<float>(self, gradient);
      wide_ = !usual();
      if (wide_) add_all<double>(self, gradient);
    }
  }
  bool wide() const { return wide_; }
  double count() const { return static_cast<double>(rows_); }
  /// The mean rounded to T, and what that left over.
  template <typename T>
  T mean(int64_t c) const {
    return static_cast<T>(origin_[c] + sums_.mean[c]);
  }
  template <typename T>
  double rounding_error(int64_t c) const {
    return (origin_[c] - static_cast<double>(mean<T>(c))) + sums_.mean[c];
  }
  double scale(int64_t c) const { return 1 / std::sqrt(std::max(sums_.squares[c], 0.0) / count() + eps_); }
  double gradient(int64_t c) const { return sums_.gradient[c]; }
  double along(int64_t c) const { return sums_.along[c]; }

 private:
  ChannelSums take_sums(bool backward, int64_t pieces = 1) {
    ChannelSums sums{origin_, scratch_.take<double>(pieces * n_), scratch_.take<double>(pieces * n_)};
    if (backward) sums.gradient = scratch_.take<double>(pieces * n_), sums.along = scratch_.take<double>(pieces * n_);
    for (double* const each : {sums.mean, sums.squares, sums.gradient, sums.along}) {
      if (each != nullptr) std::fill_n(each, pieces * n_, 0.0);
    }
    return sums;
  }

  template <typename T>
  void add_all(const View& self, const View* gradient) {
    const ChannelRows<T> functions = DECKLE_SIMD(channel_table)().template of<T>();
    const int64_t least = std::max({(rows_ + kMostPieces - 1) / kMostPieces, kGrain / std::max<int64_t>(n_, 1), int64_t{1}});
    const int64_t rows_of_piece = (least + kChannelDeep - 1) / kChannelDeep * kChannelDeep;
    const int64_t pieces = (rows_ + rows_of_piece - 1) / rows_of_piece;
    const ChannelSums parts = take_sums(gradient != nullptr, pieces);
    parallel_for(rows_, rows_of_piece, [&](int64_t begin, int64_t end) {
      ChannelSums own = parts.at(begin / rows_of_piece * n_);
      own.origin = origin_;
      const Block<T> x(self, n_);
      if (gradient == nullptr) {
        for_blocks(begin, end,
                   [&](int64_t row, int64_t rows) { functions.add(rows, n_, x.read(row, rows), nullptr, row - begin, own); });
        return;
      }
      const Block<T> g(*gradient, n_);
      for_blocks(begin, end, [&](int64_t row, int64_t rows) {
        functions.add(rows, n_, x.read(row, rows), g.read(row, rows), row - begin, own);
      });
    });
    for (double* const each : {sums_.mean, sums_.squares, sums_.gradient, sums_.along}) {
      if (each != nullptr) std::fill_n(each, n_, 0.0);
    }
    for (int64_t p = 0; p < pieces; ++p) {
      const int64_t before = p * rows_of_piece;
      merge(static_cast<double>(before), static_cast<double>(std::min(rows_of_piece, rows_ - before)), parts.at(p * n_));
    }
  }

  void merge(double before, double rows, const ChannelSums& part) {
    const double weight = rows / (before + rows);
    for (int64_t c = 0; c < n_; ++c) {
      const double difference = part.mean[c] - sums_.mean[c];
      const double merged = before == 0 ? part.mean[c] : sums_.mean[c] + difference * weight;
      sums_.squares[c] += part.squares[c] + difference * difference * (before * weight);
      if (sums_.gradient != nullptr) {
        sums_.along[c] +=
            part.along[c] + part.gradient[c] * (part.mean[c] - merged) - sums_.gradient[c] * (merged - sums_.mean[c]);
        sums_.gradient[c] += part.gradient[c];
      }
      sums_.mean[c] = merged;
    }
  }

  /// Whether no column has left the range of float, on its way or in the numbers that its elements are multiplied with.
  bool usual() const {
    bool all = true;
    for (int64_t c = 0; c < n_; ++c) {
      const double r = scale(c), variance = sums_.squares[c] / count() + eps_;
      const bool backward = sums_.along == nullptr || std::abs(sums_.along[c]) <= std::numeric_limits<float>::max();
      all = all && variance > 0x1p-100 && r > 0x1p-60 && r < 0x1p60 && backward;  // NaN is not
    }
    return all;
  }

  int64_t n_, rows_;
  double eps_;
  bool wide_ = false;
  Scratch scratch_;
  double* origin_ = nullptr;
  ChannelSums sums_{};
};

/// A parameter [n] as doubles, or null if it was not given.
struct Parameter {
  Scratch scratch;
  double* values = nullptr;
  Parameter(const View& view, int64_t n) {
    if (!view.defined) return;
    values = scratch.take<double>(n);
    simd::load_run(view.data, view.dtype, 1, n, values);
  }
  double at(int64_t c, double otherwise) const { return values == nullptr ? otherwise : values[c]; }
};

/// body(T) for the type that the matrix is computed on in.
template <typename Body>
void visit_type(const Channels& channels, DType dtype, Body body) {
  dtype == DType::float64 || channels.wide() ? body(TypeTag<double>{}) : body(TypeTag<float>{});
}

int64_t rows_of_range(int64_t n) {
  return (std::max<int64_t>(1, kRangeGrain / n) + kChannelDeep - 1) / kChannelDeep * kChannelDeep;
}

}  // namespace

void channel_norm(const Context&, const View& self, const View& weight, const View& bias, double eps, const View& result) {
  const int64_t n = self.sizes[1], rows = self.sizes[0];
  if (self.numel() == 0) return;
  const Channels channels(self, nullptr, eps);
  const Parameter w(weight, n), b(bias, n);
  visit_type(channels, self.dtype, [&]<typename T>(TypeTag<T>) {
    Scratch scratch;
    T *const mean = scratch.take<T>(n), *const scale = scratch.take<T>(n), *const offset = scratch.take<T>(n);
    for (int64_t c = 0; c < n; ++c) {
      const double s = channels.scale(c) * w.at(c, 1);
      mean[c] = channels.template mean<T>(c);
      scale[c] = static_cast<T>(s);
      offset[c] = static_cast<T>(b.at(c, 0) - channels.template rounding_error<T>(c) * s);
    }
    const ChannelRows<T> functions = DECKLE_SIMD(channel_table)().template of<T>();
    parallel_for(rows, rows_of_range(n), [&](int64_t begin, int64_t end) {
      const Block<T> x(self, n), y(result, n);
      for_blocks(begin, end, [&](int64_t row, int64_t some) {
        functions.normalise(some, n, x.read(row, some), mean, scale, offset, y.at(row));
        y.finish(row, some);
      });
    });
  });
}

void channel_norm_backward(const Context&, const View& gradient, const View& self, const View& weight, double eps,
                           const View& self_gradient, const View& weight_gradient, const View& bias_gradient) {
  const int64_t n = self.sizes[1], rows = self.sizes[0];
  Scratch scratch;
  double* const sums = scratch.take<double>(n);
  const auto store = [&](const View& to, auto of) {
    for (int64_t c = 0; c < n; ++c) sums[c] = of(c);
    simd::store_run(sums, n, to.data, to.dtype, 1);
  };
  if (self.numel() == 0) {
    store(weight_gradient, [](int64_t) { return 0.0; });
    return store(bias_gradient, [](int64_t) { return 0.0; });
  }
  const Channels channels(self, &gradient, eps);
  const Parameter w(weight, n);
  store(weight_gradient, [&](int64_t c) { return channels.along(c) * channels.scale(c); });
  store(bias_gradient, [&](int64_t c) { return channels.gradient(c); });
  visit_type(channels, self.dtype, [&]<typename T>(TypeTag<T>) {
    Scratch own;
    T *const mean = own.take<T>(n), *const slope = own.take<T>(n), *const offset = own.take<T>(n), *const scale = own.take<T>(n);
    for (int64_t c = 0; c < n; ++c) {
      const double r = channels.scale(c), k = r * (channels.along(c) / channels.count()) * r;  // xh mean(g xh) = (x - mean) k
      mean[c] = channels.template mean<T>(c);
      slope[c] = static_cast<T>(k);
      offset[c] = static_cast<T>(channels.gradient(c) / channels.count() - channels.template rounding_error<T>(c) * k);
      scale[c] = static_cast<T>(r * w.at(c, 1));
    }
    const ChannelRows<T> functions = DECKLE_SIMD(channel_table)().template of<T>();
    parallel_for(rows, rows_of_range(n), [&](int64_t begin, int64_t end) {
      const Block<T> g(gradient, n), x(self, n), dx(self_gradient, n);
      for_blocks(begin, end, [&](int64_t row, int64_t some) {
        functions.gradient(some, n, g.read(row, some), x.read(row, some), mean, slope, offset, scale, dx.at(row));
        dx.finish(row, some);
      });
    });
  });
}

}  // namespace deckle::kernels::cpu
#endif
