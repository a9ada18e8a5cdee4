// self: [M, K], mat2: [K, N], result: [M, N]

#include <algorithm>
#include <type_traits>

#include "deckle/base/parallel.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cpu/matmul/direct.h"
#include "deckle/kernels/cpu/matmul/product.h"

namespace deckle::kernels::cpu {

using namespace matmul;
namespace {

/// Row by row, modulo the range of T: sums of unsigned numbers wrap around.
template <typename T>
void multiply_narrow(const View& self, const View& mat2, const View& result) {
  using Word = std::make_unsigned_t<T>;
  const int64_t inner = self.sizes[1], columns = result.sizes[1];
  parallel_for(result.sizes[0], 1 + 16384 / (inner * columns + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Word* const row = result.ptr<Word>() + i * columns;
      std::fill_n(row, columns, Word{0});
      for (int64_t k = 0; k < inner; ++k) {
        const Word factor = self.ptr<const Word>()[i * self.strides[0] + k * self.strides[1]];
        const Word* const other = mat2.ptr<const Word>() + k * mat2.strides[0];
        for (int64_t j = 0; j < columns; ++j) row[j] = static_cast<Word>(row[j] + factor * other[j * mat2.strides[1]]);
      }
    }
  });
}

}  // namespace

void mm(const Context&, const View& self, const View& mat2, const View& result) {
  if (self.dtype == DType::int64) return multiply_integers(matrix_of(self, 0, 1), matrix_of(mat2, 0, 1), result.ptr<int64_t>());
  if (self.dtype == DType::int32) return multiply_narrow<int32_t>(self, mat2, result);
  if (self.dtype == DType::uint8) return multiply_narrow<uint8_t>(self, mat2, result);
  multiply({.a = matrix_of(self, 0, 1), .b = matrix_of(mat2, 0, 1), .c = result.data});
}

}  // namespace deckle::kernels::cpu
