// result[b] = the sum, or the mean, of the rows of weight that indices[b] names, each times its factor if there are some. A
// thread takes one column of one bag: reads each named row once, in double, in the order of the indices.
//
// weight: [V, D], indices and factors: [B, L], result: [B, D]
#include "deckle/core/cuda/device.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cuda/index/fault.cuh"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda {
namespace {

using index::Fault;
using index::Indices;

__global__ void __launch_bounds__(256)
    add_bags(const void* weight, Indices indices, const void* factors, void* result, DType dtype, int64_t count, int64_t length,
             int64_t rows, int64_t width, double divisor, Fault fault) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (at >= count) return;
  const int64_t bag = at / width, column = at - bag * width;
  double sum = 0;
  for (int64_t i = bag * length; i < (bag + 1) * length; ++i) {
    const int64_t row = indices.at(i);
    if (row < 0 || row >= rows) {
      fault.report(row, rows);
      continue;
    }
    const double value = pointwise::load<double>(weight, dtype, row * width + column);
    sum += factors == nullptr ? value : value * pointwise::load<double>(factors, dtype, i);
  }
  pointwise::store(sum / divisor, result, dtype, at);
}

void launch(const Context& context, const View& weight, const View& indices, const View& factors, bool mean, const View& result) {
  const int64_t count = result.numel(), length = indices.sizes[1];
  if (count == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const Indices at(indices);
  add_bags<<<static_cast<unsigned>((count + 255) / 256), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
      weight.data, at, factors.data, result.data, result.dtype, count, length, weight.sizes[0], weight.sizes[1],
      mean ? static_cast<double>(length) : 1.0, Fault(context.device));
  deckle::cuda::check_launch(context.device);
}

}  // namespace

void bag_rows(const Context& context, const View& weight, const View& indices, bool mean, const View& result) {
  launch(context, weight, indices, View{}, mean, result);
}
void bag_products(const Context& context, const View& weight, const View& indices, const View& factors, const View& result) {
  launch(context, weight, indices, factors, false, result);
}

}  // namespace deckle::kernels::cuda
