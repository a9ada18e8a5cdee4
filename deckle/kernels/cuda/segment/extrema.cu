// The largest and smallest value of each column of each component, their rows, and gather and scatter of values there.
// Ties go to the first; a NaN wins. Of no rows: the limit of the dtype, and row -1. Reads every element once.
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/cuda/index/fault.cuh"
#include "deckle/kernels/cuda/segment/fold.cuh"

namespace deckle::kernels::cuda {
namespace {

using index::Fault;
using segment::DeviceRagged;

void extremum(bool largest, const Context& context, const View& values, const RaggedView& ragged, const View& result) {
  segment::fold_exact(context, values, ragged, result,
                      [&](auto zero, const DeviceRagged&) { return reduce::extremum_of<decltype(zero)>(largest, values.dtype); });
}

void place(bool largest, bool with_values, const Context& context, const View& self, const RaggedView& ragged, const View& first,
           const View& second) {
  segment::fold_exact(
      context, self, ragged, first,
      [&](auto zero, const DeviceRagged& on_device) {
        using T = decltype(zero);
        return reduce::Place<T>{largest, with_values, reduce::beaten<T>(self.dtype, largest), on_device.order};
      },
      second);
}

/// Element i of `rows` names a row among `count`, in i's column; -1: none. Moves elements between there and i.
template <typename T, bool kTakes>
__global__ void __launch_bounds__(256)
    move(const T* from, const int64_t* rows, T* to, int64_t elements, int64_t inner, int64_t count, Fault fault) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= elements) return;
  int64_t row = rows[i];
  if (row < -1 || row >= count) {
    fault.report(row, count);
    row = -1;
  }
  const int64_t place = row * inner + i % inner;
  if constexpr (kTakes)
    to[i] = row < 0 ? T(0) : from[place];
  else if (row >= 0)
    to[place] = from[i];
}

template <bool kTakes>
void move_all(const Context& context, const View& from, const View& rows, int64_t count, const View& to) {
  const int64_t elements = rows.numel();
  if (elements == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  visit_item(from.dtype, [&]<typename T>(TypeTag<T>) {
    move<T, kTakes><<<static_cast<unsigned>((elements + 255) / 256), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        from.ptr<T>(), rows.ptr<int64_t>(), to.ptr<T>(), elements, segment::Values(rows).inner, count, Fault(context.device));
  });
  deckle::cuda::check_launch(context.device);
}

}  // namespace

void segment_amax(const Context& context, const View& values, const RaggedView& ragged, const View& result) {
  extremum(true, context, values, ragged, result);
}
void segment_amin(const Context& context, const View& values, const RaggedView& ragged, const View& result) {
  extremum(false, context, values, ragged, result);
}
void segment_max(const Context& context, const View& self, const RaggedView& ragged, const View& values, const View& rows) {
  place(true, true, context, self, ragged, values, rows);
}
void segment_min(const Context& context, const View& self, const RaggedView& ragged, const View& values, const View& rows) {
  place(false, true, context, self, ragged, values, rows);
}
void segment_argmax(const Context& context, const View& self, const RaggedView& ragged, const View& rows) {
  place(true, false, context, self, ragged, rows, {});
}
void segment_argmin(const Context& context, const View& self, const RaggedView& ragged, const View& rows) {
  place(false, false, context, self, ragged, rows, {});
}

void segment_take(const Context& context, const View& values, const View& rows, const View& result) {
  move_all<true>(context, values, rows, values.sizes[0], result);
}
void segment_put(const Context& context, const View& gradient, const View& rows, int64_t count, const View& result) {
  deckle::cuda::zero_bytes(result.data, context.device, result.numel() * item_size(result.dtype));
  move_all<false>(context, gradient, rows, count, result);
}

}  // namespace deckle::kernels::cuda
