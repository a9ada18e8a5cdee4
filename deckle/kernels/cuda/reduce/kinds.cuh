#pragma once

// What reductions keep of the elements seen, and how two parts merge: reduce.cuh says what a kind has. Shared by reductions over
// dims and those over the rows of components.
#include <cstdint>
#include <limits>
#include <type_traits>

#include "deckle/kernels/cuda/reduce/reduce.cuh"

namespace deckle::kernels::cuda::reduce {

/// Integers modulo 2^64.
template <typename T>
struct Sum {
  using Acc = T;
  bool mean = false;
  __device__ T start() const { return 0; }
  __device__ void add(T& acc, T x, int64_t) const { acc = merge(acc, x); }
  __device__ float few(float x, float y) const { return x + y; }
  /// bfloat16 is as wide as float: four of its elements may leave both, though their sum with others does not.
  __device__ bool holds(float few) const { return ::isfinite(few); }
  /// Halves eight at a time, float32 one by one.
  template <typename E, int kCount>
  __device__ void vectors(T& acc, const uint4 (&raw)[kCount]) const {
#pragma unroll
    for (int u = 0; u < kCount; ++u) {
      if constexpr (sizeof(E) == 2) {
        float x[8];
        pointwise::decode<E>(raw[u], x);
        add_few<8>(*this, acc, 0, [&](int k) { return x[k]; });
      } else {
        acc += __uint_as_float(raw[u].x);
        acc += __uint_as_float(raw[u].y);
        acc += __uint_as_float(raw[u].z);
        acc += __uint_as_float(raw[u].w);
      }
    }
  }
  __device__ T merge(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    else
      return a + b;
  }
  __device__ void finish(T acc, int64_t length, const Outputs& outputs, int64_t row) const {
    outputs.first.put(row, mean ? acc / static_cast<T>(length) : acc);
  }
};

/// mantissa * 2^exponent, so that no product of many factors overflows or vanishes on its way.
struct ScaledProduct {
  double mantissa;
  int64_t exponent;

  __device__ void multiply(double factor) {
    const double product = mantissa * factor, size = ::fabs(product);
    if ((size > 0x1p-900 && size < 0x1p900) || mantissa == 0 || factor == 0 || !::isfinite(mantissa) || !::isfinite(factor)) {
      mantissa = product;
    } else {
      int of_mantissa = 0, of_factor = 0;
      mantissa = ::frexp(mantissa, &of_mantissa) * ::frexp(factor, &of_factor);
      exponent += of_mantissa + of_factor;
    }
  }
};

/// Of floating elements.
template <typename T>
struct Product {
  using Acc = ScaledProduct;
  __device__ Acc start() const { return {1, 0}; }
  __device__ void add(Acc& acc, T x, int64_t) const { acc.multiply(x); }
  __device__ Acc merge(Acc a, Acc b) const {
    a.multiply(b.mantissa);
    return {a.mantissa, a.exponent + b.exponent};
  }
  __device__ void finish(Acc acc, int64_t, const Outputs& outputs, int64_t row) const {
    const auto bounded = static_cast<int>(max(int64_t{-5000}, min(acc.exponent, int64_t{5000})));
    outputs.first.put(row, ::ldexp(acc.mantissa, bounded));
  }
};

/// Modulo 2^64.
template <>
struct Product<int64_t> {
  using Acc = int64_t;
  __device__ Acc start() const { return 1; }
  __device__ void add(Acc& acc, int64_t x, int64_t) const { acc = merge(acc, x); }
  __device__ Acc merge(Acc a, Acc b) const { return static_cast<Acc>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b)); }
  __device__ void finish(Acc acc, int64_t, const Outputs& outputs, int64_t row) const { outputs.first.put(row, acc); }
};

/// The value that every element of a dtype beats, as T: what the extremum of nothing is.
template <typename T>
T beaten(DType dtype, bool largest) {
  using Wide = std::numeric_limits<T>;
  if constexpr (Wide::has_infinity) return largest ? -Wide::infinity() : Wide::infinity();
  return visit(dtype, [&]<typename E>(TypeTag<E>) {
    if constexpr (std::is_integral_v<E>)
      return static_cast<T>(largest ? std::numeric_limits<E>::lowest() : std::numeric_limits<E>::max());
    else
      return T(0);
  });
}

/// The largest or smallest element; a NaN wins.
template <typename T>
struct Extremum {
  using Acc = T;
  bool largest = true;
  T nothing = 0;
  __device__ T start() const { return nothing; }
  __device__ void add(T& acc, T x, int64_t) const { acc = merge(acc, x); }
  __device__ float few(float x, float y) const { return x != x || (largest ? x > y : x < y) ? x : y; }
  __device__ bool holds(float) const { return true; }
  /// Of all elements, in their own dtype.
  template <typename E, int kCount>
  __device__ void vectors(T& acc, const uint4 (&raw)[kCount]) const {
    acc = merge(acc, largest ? extremum<true, E>(raw) : extremum<false, E>(raw));
  }
  template <bool kLargest, typename E, int kCount>
  __device__ static float extremum(const uint4 (&raw)[kCount]) {
    if constexpr (sizeof(E) == 2) {
      using Pair = std::conditional_t<std::is_same_v<E, __half>, __half2, __nv_bfloat162>;
      const auto pair = [](uint32_t word) { return *reinterpret_cast<const Pair*>(&word); };
      const auto of = [](Pair x, Pair y) { return kLargest ? __hmax2_nan(x, y) : __hmin2_nan(x, y); };
      Pair best = pair(raw[0].x);
#pragma unroll
      for (int u = 0; u < kCount; ++u)
        best = of(best, of(of(pair(raw[u].x), pair(raw[u].y)), of(pair(raw[u].z), pair(raw[u].w))));
      return better<kLargest>(static_cast<float>(best.x), static_cast<float>(best.y));
    } else {
      const auto of = [](uint32_t x, uint32_t y) { return better<kLargest>(__uint_as_float(x), __uint_as_float(y)); };
      float best = __uint_as_float(raw[0].x);
#pragma unroll
      for (int u = 0; u < kCount; ++u)
        best = better<kLargest>(best, better<kLargest>(of(raw[u].x, raw[u].y), of(raw[u].z, raw[u].w)));
      return best;
    }
  }
  template <bool kLargest>
  __device__ static float better(float x, float y) {
    const float found = kLargest ? fmaxf(x, y) : fminf(x, y);
    return x != x || y != y ? __int_as_float(0x7fffffff) : found;
  }
  __device__ T merge(T a, T b) const { return a != a || (largest ? a > b : a < b) ? a : b; }
  __device__ void finish(T acc, int64_t, const Outputs& outputs, int64_t row) const { outputs.first.put(row, acc); }
};
template <typename T>
Extremum<T> extremum_of(bool largest, DType dtype) {
  return {largest, beaten<T>(dtype, largest)};
}

/// An element and its place.
template <typename T>
struct Found {
  T value;
  int64_t index;  // -1: none yet
};

/// The place of the largest or smallest element, the first of equal ones; a NaN wins, the first of them.
template <typename T>
struct Place {
  using Acc = Found<T>;
  bool largest = true;
  bool values = false;             // the element is the first result, its place the second
  T nothing = 0;                   // the element of no elements
  const int64_t* order = nullptr;  // if given, the place of element i is order[i]

  __device__ Acc start() const { return {nothing, -1}; }
  __device__ void add(Acc& acc, T x, int64_t i) const { acc = merge(acc, {x, i}); }
  __device__ Acc merge(Acc a, Acc b) const {
    if (a.index < 0) return b;
    if (b.index < 0) return a;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan ? a : b;
    if (!a_nan && a.value != b.value) return (largest ? a.value > b.value : a.value < b.value) ? a : b;
    return a.index < b.index ? a : b;
  }
  __device__ void finish(Acc acc, int64_t, const Outputs& outputs, int64_t row) const {
    if (values) outputs.first.put(row, acc.value);
    (values ? outputs.second : outputs.first).put(row, order == nullptr || acc.index < 0 ? acc.index : order[acc.index]);
  }
};

/// The logarithm of the sum of exponentials, in double.
struct LogSumExp {
  struct Acc {
    double largest, sum;  // of exp(x - largest)
  };
  __device__ Acc start() const { return {-std::numeric_limits<double>::infinity(), 0}; }
  __device__ void add(Acc& acc, double x, int64_t) const { acc = merge(acc, {x, 1}); }
  __device__ Acc merge(Acc a, Acc b) const {
    if (a.sum == 0) return b;
    if (b.sum == 0) return a;
    if (a.largest != a.largest || b.largest != b.largest) return {a.largest + b.largest, 1};
    const bool first = a.largest >= b.largest;
    const Acc &high = first ? a : b, &low = first ? b : a;
    const double share = high.largest == low.largest ? 1 : ::exp(low.largest - high.largest);
    return {high.largest, high.sum + low.sum * share};
  }
  __device__ double value(Acc acc) const { return ::isinf(acc.largest) ? acc.largest : acc.largest + ::log(acc.sum); }
  __device__ void finish(Acc acc, int64_t, const Outputs& outputs, int64_t row) const { outputs.first.put(row, value(acc)); }
};

/// Variance or standard deviation of elements whose squares double holds. One pass in double: means and squares of parts merge.
struct Spread {
  struct Acc {
    double count, mean, squares;  // squares of distances from the mean
  };
  int64_t correction = 1;
  bool root = false;

  __device__ Acc start() const { return {0, 0, 0}; }
  __device__ void add(Acc& acc, double x, int64_t) const {
    acc.count += 1;
    const double distance = x - acc.mean;
    acc.mean += distance / acc.count;
    acc.squares += distance * (x - acc.mean);
  }
  __device__ Acc merge(Acc a, Acc b) const {
    if (a.count == 0) return b;
    if (b.count == 0) return a;
    const double count = a.count + b.count, distance = b.mean - a.mean;
    return {count, a.mean + distance * (b.count / count),
            a.squares + b.squares + distance * distance * (a.count * b.count / count)};
  }
  __device__ double value(Acc acc, int64_t length) const {
    const double variance = acc.squares / static_cast<double>(length > correction ? length - correction : 0);
    return root ? ::sqrt(variance) : variance;
  }
  __device__ void finish(Acc acc, int64_t length, const Outputs& outputs, int64_t row) const {
    outputs.first.put(row, value(acc, length));
  }
};

/// The Euclidean norm. Squares of tiny and of huge elements are added up scaled, so that none vanishes or overflows (Blue, 1978).
struct Length {
  static constexpr double kTiny = 0x1p-511, kHuge = 0x1p486, kTinyScale = 0x1p537, kHugeScale = 0x1p-538;
  struct Acc {
    double tiny, usual, huge;
  };
  __device__ Acc start() const { return {0, 0, 0}; }
  __device__ void add(Acc& acc, double x, int64_t) const {
    const double size = ::fabs(x);
    if (size > kHuge)
      acc.huge += (x * kHugeScale) * (x * kHugeScale);
    else if (size < kTiny)
      acc.tiny += (x * kTinyScale) * (x * kTinyScale);
    else
      acc.usual += x * x;  // a NaN too
  }
  __device__ Acc merge(Acc a, Acc b) const { return {a.tiny + b.tiny, a.usual + b.usual, a.huge + b.huge}; }
  __device__ void finish(Acc acc, int64_t, const Outputs& outputs, int64_t row) const {
    if (acc.huge > 0)
      outputs.first.put(row, ::sqrt(acc.huge + acc.usual * kHugeScale * kHugeScale) / kHugeScale);
    else if (acc.usual == 0)
      outputs.first.put(row, ::sqrt(acc.tiny) / kTinyScale);
    else
      outputs.first.put(row, ::sqrt(acc.usual + acc.tiny / kTinyScale / kTinyScale));
  }
};

}  // namespace deckle::kernels::cuda::reduce
