// values, indices = self sorted along dim, stable; NaN counts as larger than everything. topk: the first k of them.
// Keys, a radix sort and a gather: lines.cuh.
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/cuda/sort/lines.cuh"

namespace deckle::kernels::cuda {
namespace {

/// Lines along a dim of contiguous [outer, length, inner]; line o * inner + i.
struct Along {
  int64_t length, inner;

  __device__ int64_t line(int64_t e) const { return e / length; }
  __device__ int64_t place(int64_t e) const {
    const int64_t line = e / length;
    return (line / inner * length + (e - line * length)) * inner + line % inner;
  }
};

template <typename T>
__global__ void __launch_bounds__(256)
    take(Along lines, const uint32_t* order, const T* self, int64_t count, int64_t kept, T* values, int64_t* indices) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= count) return;
  const int64_t line = i / kept, rank = i - line * kept, element = order[line * lines.length + rank];
  const int64_t to = (line / lines.inner * kept + rank) * lines.inner + line % lines.inner;
  values[to] = self[lines.place(element)];
  indices[to] = element - line * lines.length;
}

void sort_along(const Context& context, const View& self, int64_t dim, int64_t kept, bool descending, const View& values,
                const View& indices) {
  const int64_t count = self.numel();
  if (count == 0 || kept == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  Along lines{self.ndim > 0 ? self.sizes[dim] : 1, 1};
  for (int d = static_cast<int>(dim) + 1; d < self.ndim; ++d) lines.inner *= self.sizes[d];
  const int64_t line_count = count / lines.length, results = line_count * kept;
  const deckle::cuda::Block order(count * static_cast<int64_t>(sizeof(uint32_t)), context.device);
  sorting::order_lines(context, lines, count, line_count, self, descending, order.as<uint32_t>());
  visit_item(self.dtype, [&]<typename T>(TypeTag<T>) {
    take<T><<<static_cast<unsigned>((results + 255) / 256), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        lines, order.as<uint32_t>(), self.ptr<T>(), results, kept, values.ptr<T>(), indices.ptr<int64_t>());
  });
  deckle::cuda::check_launch(context.device);
}

}  // namespace

void sort(const Context& context, const View& self, int64_t dim, bool descending, const View& values, const View& indices) {
  sort_along(context, self, dim, self.ndim > 0 ? self.sizes[dim] : 1, descending, values, indices);
}
void topk(const Context& context, const View& self, int64_t k, int64_t dim, bool largest, const View& values,
          const View& indices) {
  sort_along(context, self, dim, k, largest, values, indices);
}

}  // namespace deckle::kernels::cuda
