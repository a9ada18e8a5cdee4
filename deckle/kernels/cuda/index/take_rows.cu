// embedding, index_select and index_select_or: rows by index. result[outer, i, :] = source[outer, index[i], :]
// Reads and writes every byte of the result once; a thread moves as many bytes at once as rows and addresses allow.
#include <algorithm>

#include "deckle/core/cuda/device.h"
#include "deckle/kernels/cpu/index/row_shape.h"
#include "deckle/kernels/cuda/index/fault.cuh"
#include "deckle/kernels/cuda/pointwise/copy.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda {
namespace {

using cpu::indexing::RowShape;
using index::Fault;
using index::Indices;

template <typename Piece>
__global__ void __launch_bounds__(256) take(const Piece* source, Indices indices, Piece* result, int64_t count, int64_t taken,
                                            int64_t rows, int64_t inner, bool or_none, Fault fault) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (at >= count) return;
  const int64_t row = at / inner, piece = at - row * inner, outer = row / taken;
  int64_t chosen = indices.at(row - outer * taken);
  if (or_none && chosen == -1) return;  // filled before
  if (chosen < 0 || chosen >= rows) {
    fault.report(chosen, rows);
    if (rows == 0) return;
    chosen = 0;
  }
  result[at] = source[(outer * rows + chosen) * inner + piece];
}

template <typename Piece>
void run(const Context& context, const View& source, const RowShape& shape, const Indices& at, int64_t taken, const View& result,
         bool or_none) {
  const int64_t inner = shape.inner * item_size(source.dtype) / static_cast<int64_t>(sizeof(Piece));
  const int64_t count = shape.outer * taken * inner;
  const deckle::cuda::DeviceGuard guard(context.device);
  take<Piece><<<static_cast<unsigned>((count + 255) / 256), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
      source.ptr<Piece>(), at, result.ptr<Piece>(), count, taken, shape.rows, inner, or_none, Fault(context.device));
  deckle::cuda::check_launch(context.device);
}

void take_rows(const Context& context, const View& source, const RowShape& shape, const View& indices, const View& result,
               bool or_none = false) {
  const Indices at(indices);  // checks the dtype, of an empty one too
  if (result.numel() == 0) return;
  const int64_t taken = indices.numel();
  const int64_t bytes = shape.inner * item_size(source.dtype);
  const auto fits = [&](int64_t piece) {
    return bytes % piece == 0 && reinterpret_cast<uintptr_t>(source.data) % static_cast<uintptr_t>(piece) == 0 &&
           reinterpret_cast<uintptr_t>(result.data) % static_cast<uintptr_t>(piece) == 0;
  };
  if (fits(16)) return run<uint4>(context, source, shape, at, taken, result, or_none);
  if (fits(8)) return run<uint2>(context, source, shape, at, taken, result, or_none);
  if (fits(4)) return run<uint32_t>(context, source, shape, at, taken, result, or_none);
  if (fits(2)) return run<uint16_t>(context, source, shape, at, taken, result, or_none);
  run<uint8_t>(context, source, shape, at, taken, result, or_none);
}

}  // namespace

void embedding(const Context& context, const View& weight, const View& indices, const View& result) {
  take_rows(context, weight, RowShape(weight, 0), indices, result);
}
void index_select(const Context& context, const View& self, int64_t dim, const View& index, const View& result) {
  take_rows(context, self, RowShape(self, dim), index, result);
}
void index_select_or(const Context& context, const View& self, const View& index, const Number& value, const View& result) {
  fill(context, value, result);
  take_rows(context, self, RowShape(self, 0), index, result, true);
}

}  // namespace deckle::kernels::cuda
