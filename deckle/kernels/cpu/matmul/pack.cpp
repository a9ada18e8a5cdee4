// Dense copies of strided matrices, halves widened to float32.
//
// Memory-bound: 2 to 8 bytes read, 2 to 8 written per element, against 2 * 512 FLOPs that a tile spends on it.

#include "deckle/kernels/cpu/matmul/pack.h"

#include <cstring>
#include <string>

#include "deckle/base/error.h"
#include "deckle/kernels/cpu/simd/halves.h"

namespace deckle::kernels::cpu::matmul {
namespace {

template <typename T>
void copy_run(const T* from, T* to, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
}
void copy_run(const bfloat16* from, float* to, int64_t count) { simd::widen(from, to, count); }
void copy_run(const float16* from, float* to, int64_t count) { simd::widen(from, to, count); }

template <typename From, typename To>
void copy_dense(const From* from, int64_t outer, int64_t outer_stride, int64_t inner, int64_t inner_stride, To* to) {
  for (int64_t i = 0; i < outer; ++i, from += outer_stride, to += inner) {
    if (inner_stride == 1) {
      copy_run(from, to, inner);
    } else {
      for (int64_t j = 0; j < inner; ++j) to[j] = static_cast<To>(from[j * inner_stride]);
    }
  }
}

template <typename From, typename To>
Operand copy(const Matrix& from, void* to) {
  const auto* data = static_cast<const From*>(from.data);
  const bool transposed = from.row_stride == 1 && from.col_stride != 1;
  if (transposed) {
    copy_dense(data, from.cols, from.col_stride, from.rows, from.row_stride, static_cast<To*>(to));
  } else {
    copy_dense(data, from.rows, from.row_stride, from.cols, from.col_stride, static_cast<To*>(to));
  }
  return {to, transposed ? from.rows : from.cols, transposed};
}

}  // namespace

Operand pack(const Matrix& from, bool keep_halves, void* to) {
  switch (from.dtype) {
    case DType::float64:
      return copy<double, double>(from, to);
    case DType::float32:
      return copy<float, float>(from, to);
    case DType::float16:
      return copy<float16, float>(from, to);
    case DType::bfloat16:
      return keep_halves ? copy<bfloat16, bfloat16>(from, to) : copy<bfloat16, float>(from, to);
    default:
      throw Error("a factor is " + std::string(name(from.dtype)) + " (expected a floating dtype)");
  }
}

}  // namespace deckle::kernels::cpu::matmul
