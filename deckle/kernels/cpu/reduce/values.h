#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>

#include "deckle/base/half.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/simd/compensated_sum.h"

namespace deckle::kernels::cpu::reduce {

/// The rows whose columns are folded: row r is at first + r * stride, or first + order[r] * stride.
template <typename T>
struct Rows {
  const T* first;
  int64_t stride;
  int64_t count;
  const int64_t* order = nullptr;

  const T* at(int64_t r) const { return first + (order == nullptr ? r : order[r]) * stride; }
  Rows part(int64_t begin, int64_t size) const {
    if (order != nullptr) return {first, stride, size, order + begin};
    return {first + begin * stride, stride, size};
  }
};

inline constexpr int64_t kDeep = 32;           // rows of columns folded in T before they enter the accumulator
inline constexpr int64_t kMostColumns = 1024;  // that Fold::columns takes

/// What Fold does with elements stored as S, which is narrower than T, as they lie in memory. Where it has no functions, elements
/// are widened by the block before.
template <typename S, typename T, typename A>
struct StoredFold {
  A (*row)(int64_t n, const S* x) = nullptr;
  void (*columns)(const Rows<S>& rows, int64_t columns, A* results) = nullptr;
  void (*few)(const Rows<S>& rows, int64_t columns, T* values) = nullptr;
};

/// One for each type that may be read so.
template <typename T, typename A>
struct NarrowTypes {
  using Folds = std::tuple<>;
};
template <typename A>
struct NarrowTypes<float, A> {
  using Folds = std::tuple<StoredFold<bfloat16, float, A>, StoredFold<float16, float, A>>;
};
template <typename A>
struct NarrowTypes<int64_t, A> {
  using Folds = std::tuple<StoredFold<int32_t, int64_t, A>>;
};

/// An associative reduction of many elements to one: the row primitives shared by dense and ragged reductions. T is the type
/// of the elements, A that of the partial results (CompensatedSum, double, ScaledProduct, Squares or Moments for floating
/// elements, int64_t for integers).
template <typename T, typename A>
struct Fold {
  A (*row)(int64_t n, const T* x);  // of one contiguous run
  /// results[c] = combine(results[c], column c of all rows).
  void (*columns)(const Rows<T>& rows, int64_t columns, A* results);
  A (*combine)(A, A);
  /// Turns n folded rows into values, which are then rounded to the result's dtype; integers stay as they are.
  void (*finish)(int64_t n, const A* folded, double parameter, double* values);
  A nothing;  // the result of no elements
  typename NarrowTypes<T, A>::Folds narrow = {};
  /// Of up to kDeep rows, with a parameter of 1, the values themselves; null where T does not hold what they are made of.
  void (*few)(const Rows<T>& rows, int64_t columns, T* values) = nullptr;
  /// Where squares may overflow or vanish, or sums overflow, whether none of these values tells of it; and whether those of one
  /// row did. Its value is then that of elements times a power of two s, divided by s^degree (reduce/scaled.h).
  bool (*usual)(int64_t n, const double* values) = nullptr;
  bool (*lost)(const A& folded) = nullptr;
  int degree = 0;
};

/// Count, mean and sum of squared deviations of a set of elements.
struct Moments {
  double count = 0, mean = 0;
  CompensatedSum squares;
};

/// Sums of squares, so that none overflows or vanishes (Blue, 1978): of elements as they are, of tiny ones times kTinyScale and
/// of huge ones times kHugeScale.
struct Squares {
  double tiny = 0, huge = 0;
  CompensatedSum usual;
};

/// mantissa * 2^exponent, so that no product of many factors overflows or vanishes on its way.
struct ScaledProduct {
  double mantissa = 1;
  int64_t exponent = 0;

  void multiply(double factor) {
    const double product = mantissa * factor, size = std::abs(product);
    if ((size > 0x1p-900 && size < 0x1p900) || mantissa == 0 || factor == 0 || !std::isfinite(mantissa) ||
        !std::isfinite(factor)) {
      mantissa = product;
    } else {
      int of_mantissa = 0, of_factor = 0;
      mantissa = std::frexp(mantissa, &of_mantissa) * std::frexp(factor, &of_factor);
      exponent += of_mantissa + of_factor;
    }
  }
  void multiply(const ScaledProduct& other) {
    multiply(other.mantissa);
    exponent += other.exponent;
  }
  double value() const {
    const double size = std::abs(mantissa);
    if (exponent <= 0 && exponent >= -900 && size >= 1 && size <= 0x1p900)  // as ldexp, which takes longer than a short row
      return mantissa * std::bit_cast<double>(static_cast<uint64_t>(1023 + exponent) << 52);
    return std::ldexp(mantissa, static_cast<int>(std::clamp<int64_t>(exponent, -5000, 5000)));
  }
};

/// a + b modulo 2^64.
inline int64_t add_modulo(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

template <typename A>
struct RealFolds {
  Fold<float, A> f32;
  Fold<double, A> f64;

  template <typename T>
  const Fold<T, A>& of() const {
    if constexpr (std::is_same_v<T, double>)
      return f64;
    else
      return f32;
  }
};

template <typename A>
struct Folds : RealFolds<A> {
  Fold<int64_t, int64_t> i64;
};

/// Exported by spread.cpp.
struct SpreadFolds {
  RealFolds<Squares> norm;
  RealFolds<Moments> variance;
  RealFolds<Moments> standard_deviation;
};

// The tables of the reductions, for the strongest allowed instruction set.
Folds<CompensatedSum> sums();   // parameter: a divisor
Folds<CompensatedSum> means();  // the same; of doubles right where their sum leaves the range
Folds<double> maxima();
Folds<double> minima();
Folds<ScaledProduct> products();
RealFolds<Squares> norms();
RealFolds<Moments> variances();  // parameter: the correction
RealFolds<Moments> standard_deviations();

/// Reduces `dims` (none: all) of `self`, of any strides and dtype (RealFolds: floating). `result` is contiguous, one element per
/// row; `parameter` goes to `finish`. Work is partitioned by shape: results do not depend on threads.
template <typename A>
void fold(const Folds<A>& folds, const View& self, std::span<const int64_t> dims, double parameter, const View& result);
template <typename A>
void fold(const RealFolds<A>& folds, const View& self, std::span<const int64_t> dims, double parameter, const View& result);

}  // namespace deckle::kernels::cpu::reduce
