#pragma once

// Mean and scale of rows: xh = (x - mean) r, r = 1 / sqrt(mean (x - mean)^2 + eps); of rms_norm the mean is taken to be 0.
// A rounded mean is subtracted, and what its rounding left, found as the mean of the distances, is too, so float arithmetic keeps
// the accuracy of the definition in double. Rows whose squares leave the range of T take that definition, scaled.
#include "deckle/kernels/cuda/reduce/row_tile.cuh"

namespace deckle::kernels::cuda::norm {

using reduce::Rows;
using reduce::Team;
using reduce::Tile;

/// The rows of a contiguous matrix.
inline Rows rows_of(const View& view) {
  Rows rows;
  rows.data = static_cast<char*>(view.data);
  rows.dtype = view.dtype;
  rows.kept.count = 1;
  rows.kept.strides[0] = view.ndim > 0 ? view.sizes[view.ndim - 1] : 1;
  return rows;
}

struct Matrix {
  int64_t rows = 1, n;
  explicit Matrix(const View& view) : n(view.sizes[view.ndim - 1]) {
    for (int dim = 0; dim + 1 < view.ndim; ++dim) rows *= view.sizes[dim];
  }
};

struct Weights {
  const char* data = nullptr;
  DType dtype = DType::float32;

  Weights() = default;
  explicit Weights(const View& view) : data(static_cast<const char*>(view.data)), dtype(view.dtype) {}
  bool aligned() const { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }
};

/// What a norm is besides its operands: n elements a row, and whether the mean counts.
struct Kind {
  int64_t n;
  double eps, inverse_n;
  bool centred;
  Kind(int64_t n_, double eps_, bool centred_) : n(n_), eps(eps_), inverse_n(1 / static_cast<double>(n_)), centred(centred_) {}
};

/// xh = scale ((unit x - high) - low), unit a power of two. Of a row in registers what is kept is d = (unit x - high) - some of
/// low, and xh = scale d + offset.
template <typename T>
struct Statistics {
  T high = 0, low = 0, scale = 0, unit = 1, offset = 0;

  __device__ T distance(T x) const { return (unit * x - high) - low; }
  /// Of xh with respect to x.
  __device__ T rate() const { return scale * unit; }
};

/// Sums of squares that T holds without losing any.
__device__ __forceinline__ bool ordinary(float squares) { return squares > 1e-25f && squares < 1e30f; }
__device__ __forceinline__ bool ordinary(double squares) { return squares > 1e-250 && squares < 1e250; }

/// 1 / sqrt(x), rounded; x has an inverse in T.
__device__ __forceinline__ float inverse_root(float x) {
  const float y = rsqrtf(x), residue = fmaf(-x * y, y, 1.0f);
  return fmaf(0.5f * y, residue, y);
}
__device__ __forceinline__ double inverse_root(double x) { return 1 / ::sqrt(x); }

/// Of the double that every thread has: merged over the team, the same everywhere.
template <int kThreads, typename Merge>
__device__ double merge_threads(double x, const Merge& merge) {
  x = Team<kThreads, double>::butterfly(x, 32, merge);
  if constexpr (kThreads > 32) {
    __shared__ double memory[kThreads / 32];
    __syncthreads();
    if (threadIdx.x % 32 == 0) memory[threadIdx.x / 32] = x;
    __syncthreads();
    x = Team<kThreads, double>::butterfly(memory[threadIdx.x % (kThreads / 32)], kThreads / 32, merge);
  }
  return x;
}

/// The definition, in double, element by element, scaled so that the largest element is between 2 and 4, as far as the unit fits
/// T and its square times eps fits double: subnormal rows keep a smaller largest element.
template <class S, int kThreads>
__device__ __noinline__ Statistics<typename S::T> exact_statistics(const Rows& x, int64_t start, const Kind& kind) {
  using T = typename S::T;
  const int first = static_cast<int>(threadIdx.x) % kThreads;
  const auto sum = [](double a, double b) { return a + b; };
  double largest = 0, mean = 0, squares = 0;
  for (int64_t i = first; i < kind.n; i += kThreads) {
    const double size = ::fabs(static_cast<double>(S::one(x, start, i)));
    largest = size > largest ? size : largest;
  }
  largest = merge_threads<kThreads>(largest, [](double a, double b) { return a > b ? a : b; });
  const bool scaled = largest > 0 && largest < std::numeric_limits<double>::infinity();
  const int most = sizeof(T) == 8 && kind.eps > 0 ? 480 : std::numeric_limits<T>::max_exponent - 1;
  const double unit = scaled ? ::scalbn(1.0, min(1 - ::ilogb(largest), most)) : 1;
  if (kind.centred) {
    for (int64_t i = first; i < kind.n; i += kThreads) mean += unit * static_cast<double>(S::one(x, start, i));
    mean = merge_threads<kThreads>(mean, sum) * kind.inverse_n;
  }
  for (int64_t i = first; i < kind.n; i += kThreads) {
    const double distance = unit * static_cast<double>(S::one(x, start, i)) - mean;
    squares += distance * distance;
  }
  const double scale = 1 / ::sqrt(merge_threads<kThreads>(squares, sum) * kind.inverse_n + unit * kind.eps * unit);
  const T high = static_cast<T>(mean);
  return {high, static_cast<T>(mean - static_cast<double>(high)), static_cast<T>(scale), static_cast<T>(unit)};
}

/// Of a row in registers, whose elements become d, and those beyond n 0.
template <class S, int kThreads, int kItems>
__device__ Statistics<typename S::T> centre(Team<kThreads, typename S::T>& team, const Rows& rows, int64_t start,
                                            const Kind& kind, typename S::T (&x)[kItems]) {
  using Part = Tile<S, kThreads, kItems>;
  using T = typename S::T;
  const int n = static_cast<int>(kind.n);
  Statistics<T> of;
  T squares, shift = 0;
  if (kind.centred) {
    of.high = team.sum(reduce::pairwise<kItems>([&](int k) { return x[k]; })) * static_cast<T>(kind.inverse_n);
#pragma unroll
    for (int k = 0; k < kItems; ++k) x[k] = Part::place(k) < n ? x[k] - of.high : T(0);
    T sums[2] = {reduce::pairwise<kItems>([&](int k) { return x[k]; }),
                 reduce::pairwise<kItems>([&](int k) { return x[k] * x[k]; })};
    team.sums(sums);
    shift = sums[0] * static_cast<T>(kind.inverse_n);
    squares = sums[1] - shift * sums[0];
  } else {
    squares = team.sum(reduce::pairwise<kItems>([&](int k) { return x[k] * x[k]; }));
  }
  if (ordinary(squares)) {
    of.scale = inverse_root(static_cast<T>(squares * static_cast<T>(kind.inverse_n) + static_cast<T>(kind.eps)));
    of.offset = -shift * of.scale;
    return of;
  }
  of = exact_statistics<S, kThreads>(rows, start, kind);
#pragma unroll
  for (int k = 0; k < kItems; ++k) x[k] = Part::place(k) < n ? of.distance(S::one(rows, start, Part::place(k))) : T(0);
  return of;
}

/// The same by one round of sums over the threads, together with those over the row of u xh, totals[0], and of u, totals[1]: the
/// derivatives read all four. Distances are from the row's first element. Where the mean is more than two standard deviations
/// from that, centre() is asked, so that squares lose three bits at most.
template <class S, int kThreads, int kItems, typename U>
__device__ Statistics<typename S::T> centre_with(Team<kThreads, typename S::T>& team, const Rows& rows, int64_t start,
                                                 const Kind& kind, typename S::T first, const U& u, typename S::T (&x)[kItems],
                                                 typename S::T (&totals)[2]) {
  using Part = Tile<S, kThreads, kItems>;
  using T = typename S::T;
  const auto inverse_n = static_cast<T>(kind.inverse_n);
  Statistics<T> of;
  T squares, shift = 0;
  bool near = true;
  if (kind.centred) {
    const int n = static_cast<int>(kind.n);
#pragma unroll
    for (int k = 0; k < kItems; ++k) x[k] = Part::place(k) < n ? x[k] - first : T(0);
    T sums[4] = {
        reduce::pairwise<kItems>([&](int k) { return u(k) * x[k]; }), reduce::pairwise<kItems>([&](int k) { return u(k); }),
        reduce::pairwise<kItems>([&](int k) { return x[k] * x[k]; }), reduce::pairwise<kItems>([&](int k) { return x[k]; })};
    team.sums(sums);
    totals[0] = sums[0], totals[1] = sums[1];
    shift = sums[3] * inverse_n;
    squares = sums[2] - shift * sums[3];
    near = shift * sums[3] <= T(4) * squares;
    of.high = first;
  } else {
    T sums[2] = {reduce::pairwise<kItems>([&](int k) { return u(k) * x[k]; }),
                 reduce::pairwise<kItems>([&](int k) { return x[k] * x[k]; })};
    team.sums(sums);
    totals[0] = sums[0], totals[1] = 0;
    squares = sums[1];
  }
  if (near && ordinary(squares)) {
    of.scale = inverse_root(static_cast<T>(squares * inverse_n + static_cast<T>(kind.eps)));
    of.offset = -shift * of.scale;
    totals[0] = totals[0] * of.scale + totals[1] * of.offset;
    return of;
  }
  Part::load(rows, start, 0, kind.n, x, T(0));
  of = centre<S, kThreads, kItems>(team, rows, start, kind, x);
  totals[0] = reduce::pairwise<kItems>([&](int k) { return u(k) * (x[k] * of.scale + of.offset); });
  totals[1] = reduce::pairwise<kItems>([&](int k) { return u(k); });
  team.sums(totals);
  return of;
}

}  // namespace deckle::kernels::cuda::norm
