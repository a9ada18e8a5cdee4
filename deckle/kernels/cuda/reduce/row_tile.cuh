#pragma once

// A row in registers: kThreads threads hold kItems elements each, read once from memory and written once. Shared by softmax and
// the norms. Sums are formed pairwise in T, among a thread's elements and then across threads by a butterfly: an error of at most
// 2^-24 log2(n) of the sum of sizes in float, the same bits in every thread and run.
//
//   bytes per row     n * (operands read + written), the floor
//   team              a warp for n <= 1024, else the block: 8 to 32 elements a thread keep 64 KB and more in flight per SM
//   longer rows       longest_row() says which; those kernels loop over tiles and read a row again, mostly from L2
#include <cstdint>
#include <limits>
#include <type_traits>

#include "deckle/kernels/cuda/reduce/rows.cuh"

namespace deckle::kernels::cuda::reduce {

/// Elements of dtype E one after another from places aligned to 16 bytes: a thread holds vectors of 16 bytes.
template <typename E>
struct Packed {
  using T = std::conditional_t<sizeof(E) == 8, double, float>;
  static constexpr int kWidth = 16 / sizeof(E);

  using Raw = std::conditional_t<sizeof(E) == 2, uint4, std::conditional_t<sizeof(E) == 4, float4, double2>>;

  __device__ static Raw raw(const Rows& rows, int64_t start, int64_t i) {
    return *reinterpret_cast<const Raw*>(reinterpret_cast<const E*>(rows.data) + start + i);
  }
  __device__ static void decode(const Raw& raw, T* x) {
    if constexpr (sizeof(E) == 2)
      pointwise::decode<E>(raw, x);
    else if constexpr (sizeof(E) == 4)
      x[0] = raw.x, x[1] = raw.y, x[2] = raw.z, x[3] = raw.w;
    else
      x[0] = raw.x, x[1] = raw.y;
  }
  __device__ static void load(const Rows& rows, int64_t start, int64_t i, T* x) { decode(raw(rows, start, i), x); }
  __device__ static void store(const Rows& rows, int64_t start, int64_t i, const T* x) {
    // As plain assignments the compiler may take a vector apart, and write a quarter of each sector at a time.
    Raw* const to = reinterpret_cast<Raw*>(reinterpret_cast<E*>(rows.data) + start + i);
    if constexpr (sizeof(E) == 2)
      __stwb(to, pointwise::encode<E>(x));
    else if constexpr (sizeof(E) == 4)
      __stwb(to, make_float4(x[0], x[1], x[2], x[3]));
    else
      __stwb(to, make_double2(x[0], x[1]));
  }
  __device__ static T one(const Rows& rows, int64_t start, int64_t i) {
    return static_cast<T>(reinterpret_cast<const E*>(rows.data)[start + i]);
  }
  /// Of another dtype perhaps: as many elements, those of a weight for each column.
  __device__ static void load_any(const char* data, DType dtype, int64_t i, T* x) {
    if (dtype == pointwise::dtype_of_element<E>()) {
      Rows weight;
      weight.data = const_cast<char*>(data);
      return load(weight, 0, i, x);
    }
    if constexpr (sizeof(E) == 2) {  // float32 beside halves: one branch a vector
      if (dtype == DType::float32) {
        const float4* const from = reinterpret_cast<const float4*>(data) + i / 4;
        const float4 low = from[0], high = from[1];
        x[0] = low.x, x[1] = low.y, x[2] = low.z, x[3] = low.w;
        x[4] = high.x, x[5] = high.y, x[6] = high.z, x[7] = high.w;
        return;
      }
    }
#pragma unroll
    for (int k = 0; k < kWidth; ++k) x[k] = pointwise::load<T>(data, dtype, i + k);
  }
};

/// Elements of any dtype and step: a thread holds single ones.
template <typename C>
struct Strided {
  using T = C;
  static constexpr int kWidth = 1;

  using Raw = T;

  __device__ static T raw(const Rows& rows, int64_t start, int64_t i) { return rows.get<T>(start, i); }
  __device__ static void decode(T raw, T* x) { *x = raw; }
  __device__ static void load(const Rows& rows, int64_t start, int64_t i, T* x) { *x = rows.get<T>(start, i); }
  __device__ static void store(const Rows& rows, int64_t start, int64_t i, const T* x) { rows.put<T>(*x, start, i); }
  __device__ static T one(const Rows& rows, int64_t start, int64_t i) { return rows.get<T>(start, i); }
  __device__ static void load_any(const char* data, DType dtype, int64_t i, T* x) { *x = pointwise::load<T>(data, dtype, i); }
};

/// f(0) + ... + f(kCount - 1), pairwise.
template <int kCount, int kFirst = 0, typename F>
__device__ __forceinline__ auto pairwise(const F& f) {
  if constexpr (kCount == 1)
    return f(kFirst);
  else
    return pairwise<kCount / 2, kFirst>(f) + pairwise<kCount - kCount / 2, kFirst + kCount / 2>(f);
}

/// The threads of a row: a warp, or a whole block.
template <int kThreads, typename T>
struct Team {
  static constexpr int kBlock = kThreads < 64 ? 256 : kThreads;  // threads of a block
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kValues = 4;  // at most, in one sum
  using Shared = T[2][kValues][kWarps];

  Shared& shared;
  int phase = 0;  // two buffers: who writes one has seen all read it

  __device__ explicit Team(Shared& memory) : shared(memory) {}
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kThreads; }
  __device__ static int64_t number() {
    return static_cast<int64_t>(blockIdx.x) * (kBlock / kThreads) + static_cast<int>(threadIdx.x) / kThreads;
  }

  template <typename V, typename Merge>
  __device__ static V butterfly(V x, int lanes, const Merge& merge) {
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
      if (half < lanes) x = merge(x, __shfl_xor_sync(0xffffffffu, x, half));
    }
    return x;
  }

  /// Each of the values merged over all threads; every thread gets it.
  template <int kCount, typename Merge>
  __device__ void all(T (&x)[kCount], const Merge& merge) {
    static_assert(kCount <= kValues);
#pragma unroll
    for (int v = 0; v < kCount; ++v) x[v] = butterfly(x[v], 32, merge);
    if constexpr (kWarps > 1) {
      const int warp = static_cast<int>(threadIdx.x) / 32, place = static_cast<int>(threadIdx.x) % 32;
      if (place == 0) {
#pragma unroll
        for (int v = 0; v < kCount; ++v) shared[phase][v][warp] = x[v];
      }
      __syncthreads();
#pragma unroll
      for (int v = 0; v < kCount; ++v) x[v] = butterfly(shared[phase][v][place % kWarps], kWarps, merge);
      phase ^= 1;
    }
  }
  template <int kCount>
  __device__ void sums(T (&x)[kCount]) {
    all(x, [](T a, T b) { return a + b; });
  }
  __device__ T sum(T x) {
    T values[1] = {x};
    sums(values);
    return values[0];
  }
  /// A NaN wins.
  __device__ T max(T x) {
    T values[1] = {x};
    all(values, [](T a, T b) { return a != a || a > b ? a : b; });
    return values[0];
  }
};

/// What part of a row each thread of a team holds: S is how elements are stored.
template <class S, int kThreads, int kItems>
struct Tile {
  using T = typename S::T;
  static constexpr int kWidth = S::kWidth, kVectors = kItems / kWidth, kElements = kThreads * kItems;

  /// The element that item k of this thread is.
  __device__ static int place(int k) {
    return ((k / kWidth) * kThreads + static_cast<int>(threadIdx.x) % kThreads) * kWidth + k % kWidth;
  }

  /// Elements [first, first + kElements) of a row; `beyond` stands for those from n on.
  __device__ static void load(const Rows& rows, int64_t start, int64_t first, int64_t n, T (&x)[kItems], T beyond) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t i = first + place(v * kWidth);
      if (i < n) {
        S::load(rows, start, i, &x[v * kWidth]);
      } else {
#pragma unroll
        for (int k = 0; k < kWidth; ++k) x[v * kWidth + k] = beyond;
      }
    }
  }
  /// A row as it lies in memory, 0 beyond n: loads that are in flight while another row is worked on.
  __device__ static void fetch(const Rows& rows, int64_t start, int64_t n, typename S::Raw (&raw)[kVectors]) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v)
      raw[v] = place(v * kWidth) < n ? S::raw(rows, start, place(v * kWidth)) : typename S::Raw{};
  }
  __device__ static void decode(const typename S::Raw (&raw)[kVectors], T (&x)[kItems]) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) S::decode(raw[v], &x[v * kWidth]);
  }
  __device__ static void store(const Rows& rows, int64_t start, int64_t first, int64_t n, const T (&x)[kItems]) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t i = first + place(v * kWidth);
      if (i < n) S::store(rows, start, i, &x[v * kWidth]);
    }
  }
  /// The elements of a weight, or `otherwise` if there is none.
  __device__ static void load_weight(const char* data, DType dtype, int64_t n, T (&x)[kItems], T otherwise) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int64_t i = place(v * kWidth);
      if (data != nullptr && i < n) {
        S::load_any(data, dtype, i, &x[v * kWidth]);
      } else {
#pragma unroll
        for (int k = 0; k < kWidth; ++k) x[v * kWidth + k] = otherwise;
      }
    }
  }
};

/// Whether every row of a view lies in vectors of 16 bytes.
inline bool packed(const Rows& rows, int64_t n) {
  const int64_t item = item_size(rows.dtype);
  if (!is_floating(rows.dtype) || rows.step != 1 || n * item % 16 != 0 || reinterpret_cast<uintptr_t>(rows.data) % 16 != 0)
    return false;
  for (int d = 0; d < rows.kept.count; ++d) {
    if (rows.kept.sizes[d] > 1 && rows.kept.strides[d] * item % 16 != 0) return false;
  }
  return true;
}

template <int kThreads_, int kItems_>
struct Shape {
  static constexpr int kThreads = kThreads_, kItems = kItems_;
};

/// Calls launch(storage tag, shape tag) with how rows of n elements are stored and the smallest shape that holds one; a row that
/// none holds is looped over with the last.
template <typename S, typename... Shapes, typename Launch>
void for_shape(int64_t n, const Launch& launch) {
  bool done = false;
  ((done || n > Shapes::kThreads * Shapes::kItems ? void() : (done = true, launch(S(), Shapes()))), ...);
  if (!done) launch(S(), Shape<512, 16>());
}
template <typename Launch>
void for_tiles(bool vectors, DType dtype, int64_t n, const Launch& launch) {
  const auto with_vectors = [&](auto storage) {
    for_shape<decltype(storage), Shape<32, 8>, Shape<32, 16>, Shape<32, 32>, Shape<128, 16>, Shape<512, 16>>(n, launch);
  };
  const auto with_single = [&](auto storage) { for_shape<decltype(storage), Shape<32, 8>, Shape<128, 16>>(n, launch); };
  if (!vectors) return dtype == DType::float64 ? with_single(Strided<double>()) : with_single(Strided<float>());
  if (dtype == DType::float32) return with_vectors(Packed<float>());
  if (dtype == DType::bfloat16) return with_vectors(Packed<__nv_bfloat16>());
  if (dtype == DType::float16) return with_vectors(Packed<__half>());
  for_shape<Packed<double>, Shape<32, 8>, Shape<128, 8>>(n, launch);
}

}  // namespace deckle::kernels::cuda::reduce
