#pragma once

// What a pointwise kernel gets: places of its operands, and how elements of any dtype are read and written there.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <limits>
#include <type_traits>

#include "deckle/base/dtype.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cuda::pointwise {

inline constexpr int kWidth = 8;  // elements that a thread takes at once

/// A divisor known to the host: quotients of numbers below 2^31 by a product and a shift.
struct Divisor {
  uint32_t divisor, magic, shift;

  Divisor() = default;
  explicit Divisor(int64_t value) : divisor(static_cast<uint32_t>(value)), shift(0) {
    while (shift < 32 && (uint64_t{1} << shift) < divisor) ++shift;
    magic = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - divisor)) / divisor + 1);
  }
  __device__ uint32_t quotient(uint32_t n) const { return (__umulhi(n, magic) + n) >> shift; }
};

/// A tensor with its strides by dim, innermost first, in elements; or one number, whose strides are 0. No member has a value
/// until it is given one: a launch would spend more on clearing than on the rest.
struct Operand {
  char* data;
  double real;
  int64_t integer;
  DType dtype;
  bool is_number;
  int64_t strides[kMaxDims];
};

/// The shape that all operands have, and these: tensors, numbers, the result. Kernels of fewer operands read the front of it.
template <int kOperands>
struct Walk {
  int64_t count;  // threads' elements in all: vectors of kWidth, or single ones
  int64_t inner;  // size of the innermost dim
  int dims;
  bool small;                  // all indices are below 2^31
  Divisor divisors[kMaxDims];  // by dim; of vectors, the innermost by how many vectors it has
  int64_t sizes[kMaxDims];
  Operand operands[kOperands];
};

/// Adds the place of element `index` in each operand to `offsets`; the innermost dim counts `width` elements at a time. Returns
/// where along the innermost dim it is. One piece of code without a function to call: the offsets stay in registers.
template <int kOperands>
__device__ __forceinline__ int64_t places(const Walk<kOperands>& walk, int64_t index, int width, int64_t (&offsets)[kOperands]) {
  int64_t start = 0;
  for (int dim = 0; dim < walk.dims; ++dim) {
    int64_t at = index;
    if (dim + 1 < walk.dims) {
      index = walk.small ? static_cast<int64_t>(walk.divisors[dim].quotient(static_cast<uint32_t>(at))) : at / walk.sizes[dim];
      at -= index * walk.sizes[dim];
    }
    if (dim == 0) start = at *= width;
#pragma unroll
    for (int i = 0; i < kOperands; ++i) offsets[i] += at * walk.operands[i].strides[dim];
  }
  return start;
}

/// The same for vector `index`, without a loop where one dim is all there is: strides there are 0 or 1.
template <int kOperands>
__device__ __forceinline__ int64_t vector_places(const Walk<kOperands>& walk, int64_t index, int64_t (&offsets)[kOperands]) {
  if (walk.dims > 1) return places(walk, index, kWidth, offsets);
  const int64_t start = index * kWidth;
#pragma unroll
  for (int i = 0; i < kOperands; ++i) offsets[i] = walk.operands[i].strides[0] == 0 ? 0 : start;
  return start;
}

/// Calls `f(TypeTag<E>{})` with the type that a GPU reads elements as, bool as a byte, in kernels and on the host.
#pragma nv_exec_check_disable
template <typename F>
__host__ __device__ __forceinline__ decltype(auto) visit_element(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32:
      return f(TypeTag<float>());
    case DType::float64:
      return f(TypeTag<double>());
    case DType::bfloat16:
      return f(TypeTag<__nv_bfloat16>());
    case DType::float16:
      return f(TypeTag<__half>());
    case DType::int64:
      return f(TypeTag<int64_t>());
    case DType::int32:
      return f(TypeTag<int32_t>());
    default:
      return f(TypeTag<uint8_t>());
  }
}

template <typename E>
inline constexpr bool kIsHalf = std::is_same_v<E, __nv_bfloat16> || std::is_same_v<E, __half>;

template <typename T>
__device__ __forceinline__ T load(const void* data, DType dtype, int64_t at) {
  return visit_element(dtype, [&]<typename E>(TypeTag<E>) {
    if constexpr (kIsHalf<E>)
      return static_cast<T>(static_cast<float>(static_cast<const E*>(data)[at]));
    else
      return static_cast<T>(static_cast<const E*>(data)[at]);
  });
}

/// As the CPU converts (cpu/simd/convert_element.h): truncated and saturated, NaN to 0; integers keep their low bits.
template <typename I, typename T>
__device__ __forceinline__ I to_integer(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    constexpr T kLow = static_cast<T>(std::numeric_limits<I>::min());
    constexpr T kEnd = static_cast<T>(std::numeric_limits<I>::max() / 2 + 1) * 2;  // exact: a power of two
    if (!(value > kLow)) return value == value ? std::numeric_limits<I>::min() : I{0};
    return value < kEnd ? static_cast<I>(value) : std::numeric_limits<I>::max();
  } else {
    return static_cast<I>(value);
  }
}

/// A float that becomes the half nearest to a value of more bits: cut off, and odd where it is not exact.
__device__ __forceinline__ float odd_unless_exact(float cut, bool exact) {
  return exact ? cut : __uint_as_float(__float_as_uint(cut) | 1u);
}
template <typename T>
__device__ __forceinline__ float for_half(T value) {
  return static_cast<float>(value);
}
__device__ __forceinline__ float for_half(double value) {
  const float cut = __double2float_rz(value);
  return odd_unless_exact(cut, static_cast<double>(cut) == value);
}
__device__ __forceinline__ float for_half(int64_t value) {
  const float cut = __ll2float_rz(value);
  return odd_unless_exact(cut, static_cast<int64_t>(cut) == value);
}

/// Rounded once: what doubles or integers give as a half is a copy's element.
template <typename T>
__device__ __forceinline__ void store(T value, void* data, DType dtype, int64_t at) {
  switch (dtype) {
    case DType::float32:
      static_cast<float*>(data)[at] = static_cast<float>(value);
      break;
    case DType::float64:
      static_cast<double*>(data)[at] = static_cast<double>(value);
      break;
    case DType::bfloat16:
      static_cast<__nv_bfloat16*>(data)[at] = __float2bfloat16_rn(for_half(value));
      break;
    case DType::float16:
      static_cast<__half*>(data)[at] = __float2half_rn(for_half(value));
      break;
    case DType::int64:
      static_cast<int64_t*>(data)[at] = to_integer<int64_t>(value);
      break;
    case DType::int32:
      static_cast<int32_t*>(data)[at] = to_integer<int32_t>(value);
      break;
    case DType::uint8:
      static_cast<uint8_t*>(data)[at] = to_integer<uint8_t>(value);
      break;
    default:
      static_cast<bool*>(data)[at] = value != T(0);
  }
}

/// The dtypes that vectors of compute type T are read and written as: T itself, halves for float, bool.
template <typename T>
constexpr bool vectors_of(DType dtype) {
  return dtype == dtype_of<T> || dtype == DType::bool_ ||
         (dtype_of<T> == DType::float32 && (dtype == DType::bfloat16 || dtype == DType::float16));
}

/// Two elements of 8 bytes, in one access.
template <typename T>
struct alignas(16) Two {
  T first, second;
};

/// The dtype whose elements E are.
template <typename E>
constexpr DType dtype_of_element() {
  if constexpr (std::is_same_v<E, __nv_bfloat16>)
    return DType::bfloat16;
  else if constexpr (std::is_same_v<E, __half>)
    return DType::float16;
  else
    return dtype_of<E>;
}

/// The two halves of each word.
template <typename E>
__device__ __forceinline__ float2 decode(uint32_t word) {
  if constexpr (std::is_same_v<E, __nv_bfloat16>)
    return {__uint_as_float(word << 16), __uint_as_float(word & 0xffff0000u)};
  else
    return {__half2float(__ushort_as_half(static_cast<unsigned short>(word & 0xffffu))),
            __half2float(__ushort_as_half(static_cast<unsigned short>(word >> 16)))};
}
template <typename E>
__device__ __forceinline__ uint32_t encode(float low, float high) {
  if constexpr (std::is_same_v<E, __nv_bfloat16>) {
    const __nv_bfloat162 two = __floats2bfloat162_rn(low, high);  // one instruction
    return __bfloat16_as_ushort(two.x) | static_cast<uint32_t>(__bfloat16_as_ushort(two.y)) << 16;
  } else {
    const __half2 two = __floats2half2_rn(low, high);
    return __half_as_ushort(two.x) | static_cast<uint32_t>(__half_as_ushort(two.y)) << 16;
  }
}
template <typename E, typename T>
__device__ __forceinline__ void decode(const uint4& raw, T* x) {
  const float2 a = decode<E>(raw.x), b = decode<E>(raw.y), c = decode<E>(raw.z), d = decode<E>(raw.w);
  x[0] = a.x, x[1] = a.y, x[2] = b.x, x[3] = b.y, x[4] = c.x, x[5] = c.y, x[6] = d.x, x[7] = d.y;
}
template <typename E, typename T>
__device__ __forceinline__ uint4 encode(const T* x) {
  return make_uint4(encode<E>(x[0], x[1]), encode<E>(x[2], x[3]), encode<E>(x[4], x[5]), encode<E>(x[6], x[7]));
}

/// 16 bytes of elements E, as they lie in memory, and the numbers that they are.
template <typename E>
struct Pack {
  static constexpr int kWidth = 16 / sizeof(E);

  __device__ static __forceinline__ void decode(const uint4& raw, float (&x)[kWidth]) {
    if constexpr (sizeof(E) == 2) {
      pointwise::decode<E>(raw, x);
    } else {
      x[0] = __uint_as_float(raw.x), x[1] = __uint_as_float(raw.y);
      x[2] = __uint_as_float(raw.z), x[3] = __uint_as_float(raw.w);
    }
  }
  __device__ static __forceinline__ uint4 encode(const float (&x)[kWidth]) {
    if constexpr (sizeof(E) == 2)
      return pointwise::encode<E>(x);
    else
      return make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3]));
  }
};

/// kWidth elements as they lie in memory, for T: read without a use, so that several loads are in flight before the first is
/// needed.
template <typename T>
struct Raw {
  uint4 words[sizeof(T) * kWidth / 16];
};

/// kWidth elements that lie one after another, aligned to them (16 bytes at most).
template <typename T>
__device__ __forceinline__ Raw<T> load_raw(const char* data, DType dtype) {
  static_assert(kWidth == 8);
  Raw<T> raw;
  if (dtype == DType::bool_) {
    const uint2 bytes = *reinterpret_cast<const uint2*>(data);
    raw.words[0].x = bytes.x;
    raw.words[0].y = bytes.y;
  } else if (sizeof(T) == 8 || dtype == DType::float32) {
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(T)) / 2; ++i) raw.words[i] = reinterpret_cast<const uint4*>(data)[i];
  } else {
    raw.words[0] = *reinterpret_cast<const uint4*>(data);
  }
  return raw;
}

/// Without arrays of bytes, which would lie in memory instead of registers.
template <typename T>
__device__ __forceinline__ T of_words(uint32_t low, uint32_t high) {
  if constexpr (std::is_same_v<T, double>)
    return __hiloint2double(static_cast<int>(high), static_cast<int>(low));
  else
    return static_cast<T>(static_cast<uint64_t>(high) << 32 | low);
}
template <typename T>
__device__ __forceinline__ void decode_raw(const Raw<T>& raw, DType dtype, T (&x)[kWidth]) {
  if (dtype == DType::bool_) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[i] = static_cast<T>(raw.words[0].x >> (8 * i) & 0xffu);
      x[i + 4] = static_cast<T>(raw.words[0].y >> (8 * i) & 0xffu);
    }
  } else if constexpr (sizeof(T) == 8) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[2 * i] = of_words<T>(raw.words[i].x, raw.words[i].y);
      x[2 * i + 1] = of_words<T>(raw.words[i].z, raw.words[i].w);
    }
  } else if (dtype == DType::float32) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      x[4 * i] = __uint_as_float(raw.words[i].x);
      x[4 * i + 1] = __uint_as_float(raw.words[i].y);
      x[4 * i + 2] = __uint_as_float(raw.words[i].z);
      x[4 * i + 3] = __uint_as_float(raw.words[i].w);
    }
  } else if (dtype == DType::bfloat16) {  // one branch a vector, none a word
    decode<__nv_bfloat16>(raw.words[0], x);
  } else {
    decode<__half>(raw.words[0], x);
  }
}

template <typename T>
__device__ __forceinline__ void store_vector(const T (&x)[kWidth], char* data, DType dtype) {
  if (dtype == DType::bool_) {
    uint2 raw{0, 0};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      raw.x |= static_cast<uint32_t>(x[i] != T(0)) << (8 * i);
      raw.y |= static_cast<uint32_t>(x[i + 4] != T(0)) << (8 * i);
    }
    *reinterpret_cast<uint2*>(data) = raw;
  } else if constexpr (sizeof(T) == 8) {
#pragma unroll
    for (int i = 0; i < 4; ++i) reinterpret_cast<Two<T>*>(data)[i] = {x[2 * i], x[2 * i + 1]};
  } else if (dtype == DType::float32) {
    reinterpret_cast<float4*>(data)[0] = make_float4(x[0], x[1], x[2], x[3]);
    reinterpret_cast<float4*>(data)[1] = make_float4(x[4], x[5], x[6], x[7]);
  } else {
    *reinterpret_cast<uint4*>(data) = dtype == DType::bfloat16 ? encode<__nv_bfloat16>(x) : encode<__half>(x);
  }
}

}  // namespace deckle::kernels::cuda::pointwise
