// Row b of [components, inner], once for each row of component b.                            Writes every byte of the result once
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/cuda/segment/ragged.cuh"

namespace deckle::kernels::cuda {
namespace {

using segment::DeviceRagged;

template <typename Piece>
__global__ void __launch_bounds__(256) repeat(const Piece* from, DeviceRagged ragged, Piece* to, int64_t count, int64_t inner) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (at >= count) return;
  const int64_t row = at / inner, piece = at - row * inner;
  to[ragged.row(row) * inner + piece] = from[ragged.component(row) * inner + piece];
}

template <typename Piece>
void run(const Context& context, const View& rows, const RaggedView& ragged, const View& repeated) {
  const segment::Uploaded uploaded(context, ragged);
  const int64_t count = repeated.numel() * item_size(repeated.dtype) / static_cast<int64_t>(sizeof(Piece));
  repeat<Piece><<<static_cast<unsigned>((count + 255) / 256), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
      rows.ptr<Piece>(), uploaded.ragged(), repeated.ptr<Piece>(), count, count / ragged.rows());
}

}  // namespace

void segment_broadcast(const Context& context, const View& rows, const RaggedView& ragged, const View& repeated) {
  if (repeated.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const int64_t bytes = repeated.numel() / ragged.rows() * item_size(repeated.dtype);
  const auto fits = [&](int64_t piece) {
    return bytes % piece == 0 && reinterpret_cast<uintptr_t>(rows.data) % static_cast<uintptr_t>(piece) == 0 &&
           reinterpret_cast<uintptr_t>(repeated.data) % static_cast<uintptr_t>(piece) == 0;
  };
  if (fits(16))
    run<uint4>(context, rows, ragged, repeated);
  else if (fits(4))
    run<uint32_t>(context, rows, ragged, repeated);
  else if (fits(2))
    run<uint16_t>(context, rows, ragged, repeated);
  else
    run<uint8_t>(context, rows, ragged, repeated);
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda
