// Each head of [rows, H, D] turned by the angles of its row's position: element i with i + D / 2.
#include "deckle/core/cuda/device.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cuda/index/fault.cuh"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda {
namespace {

struct Turn {
  const void *x, *cosines, *sines;
  void* y;
  const int64_t* positions;
  DType dtype;
  int64_t heads, half, known, count;
  index::Fault fault;
};

template <typename T>
__global__ void __launch_bounds__(256) turn(Turn t) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;  // of a pair
  if (at >= t.count) return;
  const int64_t head = at / t.half, i = at - head * t.half, row = head / t.heads;
  int64_t position = t.positions[row];
  if (position < 0 || position >= t.known) {
    t.fault.report(position, t.known);
    if (t.known == 0) return;
    position = 0;
  }
  const int64_t first = head * 2 * t.half + i, angle = position * t.half + i;
  const T a = pointwise::load<T>(t.x, t.dtype, first), b = pointwise::load<T>(t.x, t.dtype, first + t.half);
  const T c = pointwise::load<T>(t.cosines, t.dtype, angle), s = pointwise::load<T>(t.sines, t.dtype, angle);
  pointwise::store(a * c - b * s, t.y, t.dtype, first);
  pointwise::store(a * s + b * c, t.y, t.dtype, first + t.half);
}

}  // namespace

void rotary(const Context& context, const View& self, const View& positions, const View& cosines, const View& sines,
            const View& result) {
  if (self.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const Turn t{self.data,
               cosines.data,
               sines.data,
               result.data,
               positions.ptr<int64_t>(),
               self.dtype,
               self.sizes[self.ndim - 2],
               self.sizes[self.ndim - 1] / 2,
               cosines.sizes[0],
               self.numel() / 2,
               index::Fault(context.device)};
  const auto blocks = static_cast<unsigned>((t.count + 255) / 256);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  if (self.dtype == DType::float64)
    turn<double><<<blocks, 256, 0, stream>>>(t);
  else
    turn<float><<<blocks, 256, 0, stream>>>(t);
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda
