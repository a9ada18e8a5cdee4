// The rows of each component sorted column by column, stable, and the row that each value came from.    values: [rows, inner]
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/cuda/segment/ragged.cuh"
#include "deckle/kernels/cuda/sort/lines.cuh"

namespace deckle::kernels::cuda {
namespace {

/// Lines of components: line b * inner + c. Elements: line by line.
struct Columns {
  segment::DeviceRagged ragged;
  int64_t inner;

  __device__ int64_t component(int64_t e) const { return ragged.component(e / inner); }
  __device__ int64_t line(int64_t e) const {
    const int64_t b = component(e), begin = ragged.offsets[b], length = ragged.offsets[b + 1] - begin;
    return b * inner + (e - begin * inner) / length;
  }
  /// The packed row of element e.
  __device__ int64_t row(int64_t e) const {
    const int64_t b = component(e), begin = ragged.offsets[b], length = ragged.offsets[b + 1] - begin;
    return ragged.row(begin + (e - begin * inner) % length);
  }
  __device__ int64_t place(int64_t e) const { return row(e) * inner + line(e) % inner; }
};

template <typename T>
__global__ void __launch_bounds__(256)
    take(Columns lines, const uint32_t* order, const T* self, int64_t count, T* values, int64_t* rows) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= count) return;
  const int64_t from = order[i], to = lines.place(i);
  values[to] = self[lines.place(from)];
  rows[to] = lines.row(from);
}

}  // namespace

void segment_sort(const Context& context, const View& self, const RaggedView& ragged, bool descending, const View& values,
                  const View& rows) {
  const int64_t count = self.numel();
  if (count == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const segment::Uploaded uploaded(context, ragged);
  const Columns lines{uploaded.ragged(), count / ragged.rows()};
  const deckle::cuda::Block order(count * static_cast<int64_t>(sizeof(uint32_t)), context.device);
  sorting::order_lines(context, lines, count, ragged.components * lines.inner, self, descending, order.as<uint32_t>());
  visit_item(self.dtype, [&]<typename T>(TypeTag<T>) {
    take<T><<<static_cast<unsigned>((count + 255) / 256), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        lines, order.as<uint32_t>(), self.ptr<T>(), count, values.ptr<T>(), rows.ptr<int64_t>());
  });
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda
