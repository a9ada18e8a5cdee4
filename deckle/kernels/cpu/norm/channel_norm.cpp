// channel_norm, columns of a matrix normalised over its rows, and its backward.                       x, g: [rows, n]; w, b: [n]
//
//   xh = r (x - mean x),  r = 1 / sqrt(mean (x - mean x)^2 + eps)      y = xh w + b           means over the rows of a column
//   backward: dx = w r (g - mean g - xh mean(g xh)), dw = sum g xh, db = sum g
// Two passes over memory, each in the order in which it lies: statistics of pieces of rows, then the result. In a piece, blocks
// of kDeep rows, read a second time from the second cache, have a mean of their own, rounded to T, from which deviations are
// taken: as accurate for columns far from zero as for others. Blocks and pieces are merged in double, by Chan's formula, in
// order. Where squares in float overflow or underflow beside eps everything is computed in double; where those in double do, from
// a copy whose columns are multiplied by powers of two. Instances: float (float32 and the halves, widened by the block), double.
// Versions, 1024 x 1024, forward and backward in ratio to PyTorch's time (two cores of an Emerald Rapids, 2026-11-28):
//   ops one after another (measured at 0da05677)    float32 1.59, 2.13   bfloat16 2.22, 3.23   float64 1.85, 2.56
//   this                                            float32 0.58, 0.66   bfloat16 0.79, 0.82   float64 0.79, 0.68

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "deckle/base/parallel.h"
#include "deckle/base/scratch.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/norm/channel_rows.h"
#include "deckle/kernels/cpu/simd/convert.h"
#include "deckle/kernels/cpu/simd/scale_exponent.h"

namespace deckle::kernels::cpu {
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
  Channels(const View& self, const View* gradient, double eps) : self_(self), n_(self.sizes[1]), rows_(self.sizes[0]), eps_(eps) {
    origin_ = scratch_.take<double>(n_);
    sums_ = take_sums(gradient != nullptr);
    if (self.dtype == DType::float64) {
      add_all<double>(gradient);
      if (!within_double() && scale_columns()) add_all<double>(gradient);
    } else {
      add_all<float>(gradient);
      wide_ = !usual();
      if (wide_) add_all<double>(gradient);
    }
  }
  /// What the sums are of: the matrix, each column times its unit.
  const View& self() const { return self_; }
  double unit(int64_t c) const { return units_ == nullptr ? 1 : units_[c]; }
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
  double scale(int64_t c) const { return 1 / std::sqrt(std::max(sums_.squares[c], 0.0) / count() + unit(c) * eps_ * unit(c)); }
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
  void add_all(const View* gradient) {
    if (rows_ > 0) simd::load_run(self_.data, self_.dtype, 1, n_, origin_);
    const ChannelRows<T> functions = channel_rows().template of<T>();
    const int64_t least = std::max({(rows_ + kMostPieces - 1) / kMostPieces, kGrain / std::max<int64_t>(n_, 1), int64_t{1}});
    const int64_t rows_of_piece = (least + kChannelDeep - 1) / kChannelDeep * kChannelDeep;
    const int64_t pieces = (rows_ + rows_of_piece - 1) / rows_of_piece;
    const ChannelSums parts = take_sums(gradient != nullptr, pieces);
    parallel_for(rows_, rows_of_piece, [&](int64_t begin, int64_t end) {
      ChannelSums own = parts.at(begin / rows_of_piece * n_);
      own.origin = origin_;
      const Block<T> x(self_, n_);
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

  /// Whether squares in double neither overflowed nor lost digits that count beside eps.
  bool within_double(int64_t c) const {
    constexpr double kLeast = std::numeric_limits<double>::min() / std::numeric_limits<double>::epsilon();
    return std::isfinite(sums_.squares[c]) && sums_.squares[c] / count() + eps_ >= kLeast &&
           (sums_.along == nullptr || std::isfinite(sums_.along[c]));
  }
  bool within_double() const {
    bool all = true;
    for (int64_t c = 0; c < n_; ++c) all = all && within_double(c);
    return all;
  }

  /// Of a column that left the range the largest element comes to [2, 4), unless the root of eps is larger; elements that are all
  /// one come to 0. False, and no copy made, where that changes none: those with NaN or infinity.
  bool scale_columns() {
    units_ = scratch_.take<double>(n_);
    std::fill_n(units_, n_, std::sqrt(eps_));
    double* const factors = scratch_.take<double>(n_);
    std::fill_n(factors, n_, 0.0);  // 1 of columns whose elements differ
    const double* const x = self_.ptr<double>();
    for (int64_t i = 0, c = 0; i < rows_ * n_; ++i, c = c + 1 < n_ ? c + 1 : 0) {
      units_[c] = std::max(units_[c], std::abs(x[i])) + (x[i] - x[i]);  // NaN from the first NaN or infinity on
      if (x[i] != x[c]) factors[c] = 1;
    }
    for (int64_t c = 0; c < n_; ++c) {
      const bool scales = !within_double(c) && units_[c] > 0 && std::isfinite(units_[c]);
      const int exponent = scales && factors[c] != 0 ? scale_exponent<double>(units_[c]) : 0;
      factors[c] = scales ? std::ldexp(factors[c], exponent) : 1;
      units_[c] = std::ldexp(1.0, exponent);
    }
    if (std::all_of(factors, factors + n_, [](double factor) { return factor == 1; })) return false;
    double* const scaled = scratch_.take<double>(rows_ * n_);
    for (int64_t i = 0, c = 0; i < rows_ * n_; ++i, c = c + 1 < n_ ? c + 1 : 0) scaled[i] = x[i] * factors[c];
    self_.data = scaled;
    return true;
  }

  View self_;
  int64_t n_, rows_;
  double eps_;
  bool wide_ = false;
  Scratch scratch_;
  double *origin_ = nullptr, *units_ = nullptr;
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
    const ChannelRows<T> functions = channel_rows().template of<T>();
    parallel_for(rows, rows_of_range(n), [&](int64_t begin, int64_t end) {
      const Block<T> x(channels.self(), n), y(result, n);
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
      scale[c] = static_cast<T>(r * w.at(c, 1) * channels.unit(c));
    }
    const ChannelRows<T> functions = channel_rows().template of<T>();
    parallel_for(rows, rows_of_range(n), [&](int64_t begin, int64_t end) {
      const Block<T> g(gradient, n), x(channels.self(), n), dx(self_gradient, n);
      for_blocks(begin, end, [&](int64_t row, int64_t some) {
        functions.gradient(some, n, g.read(row, some), x.read(row, some), mean, slope, offset, scale, dx.at(row));
        dx.finish(row, some);
      });
    });
  });
}

}  // namespace deckle::kernels::cpu
