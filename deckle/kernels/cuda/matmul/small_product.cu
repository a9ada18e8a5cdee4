// One small product, whose cost is that of the call: cuBLASLt's takes the host longer than a launch does.
// A block computes 32 x 32 elements, four a thread, from operands that are in shared memory whole; sums in order of the terms, in
// float for float32 and halves, else in double.
#include "deckle/kernels/cuda/matmul/small_product.h"

#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda::matmul {
namespace {

constexpr int kTile = 32, kMost = 64, kDepth = 8;

/// A matrix of at most kMost rows and columns.
struct Small {
  const void* data;
  int64_t row, column;  // strides
};

template <typename E>
__global__ void __launch_bounds__(kTile* kDepth)
    small(Small a, Small b, const E* bias, E* result, int rows, int columns, int terms, bool accumulates) {
  using T = std::conditional_t<sizeof(E) == 8, double, float>;
  __shared__ T left[kMost][kTile + 1], right[kMost][kTile + 1];  // [term][row], [term][column]
  const int row0 = static_cast<int>(blockIdx.y) * kTile, column0 = static_cast<int>(blockIdx.x) * kTile;
  const int fast = static_cast<int>(threadIdx.x), slow = static_cast<int>(threadIdx.y);
  // Neighbouring threads read neighbouring elements, whichever stride is 1.
  const auto load = [&](T(&to)[kMost][kTile + 1], const Small& from, int64_t of_term, int64_t of_line, int first, int lines) {
    const bool along_lines = of_line == 1;
    const int inner = along_lines ? kTile : kMost, outer = along_lines ? terms : kTile;
    for (int i = slow; i < outer; i += kDepth) {
      for (int k = fast; k < inner; k += kTile) {
        const int line = along_lines ? k : i, term = along_lines ? i : k;
        if (term < terms && line < kTile)
          to[term][line] = first + line < lines
                               ? static_cast<T>(static_cast<const E*>(from.data)[(first + line) * of_line + term * of_term])
                               : T(0);
      }
    }
  };
  load(left, a, a.column, a.row, row0, rows);
  load(right, b, b.row, b.column, column0, columns);
  __syncthreads();
  T sums[kTile / kDepth] = {};
  for (int k = 0; k < terms; ++k) {
    const T y = right[k][fast];
#pragma unroll
    for (int i = 0; i < kTile / kDepth; ++i) sums[i] += left[k][slow + i * kDepth] * y;
  }
  const int column = column0 + fast;
  if (column >= columns) return;
#pragma unroll
  for (int i = 0; i < kTile / kDepth; ++i) {
    const int row = row0 + slow + i * kDepth;
    if (row >= rows) continue;
    E* const to = result + row * columns + column;
    if (accumulates) sums[i] += static_cast<T>(*to);
    if (bias != nullptr) sums[i] += static_cast<T>(bias[column]);
    *to = static_cast<E>(sums[i]);
  }
}

}  // namespace

bool small_product(const Context& context, DType dtype, const Matrices& a, const Matrices& b, const Matrices& result,
                   const void* bias, bool accumulates) {
  if (result.rows > kMost || result.columns > kMost || a.columns > kMost) return false;
  const deckle::cuda::DeviceGuard guard(context.device);
  const auto rows = static_cast<int>(result.rows), columns = static_cast<int>(result.columns);
  const dim3 grid(static_cast<unsigned>((columns + kTile - 1) / kTile), static_cast<unsigned>((rows + kTile - 1) / kTile));
  pointwise::visit_element(dtype, [&]<typename E>(TypeTag<E>) {
    if constexpr (!std::is_integral_v<E>)
      small<E><<<grid, dim3(kTile, kDepth), 0, deckle::cuda::stream_handle(context.device)>>>(
          {a.data, a.row, a.column}, {b.data, b.row, b.column}, static_cast<const E*>(bias), static_cast<E*>(result.data), rows,
          columns, static_cast<int>(a.columns), accumulates);
  });
  deckle::cuda::check_launch(context.device);
  return true;
}

}  // namespace deckle::kernels::cuda::matmul
