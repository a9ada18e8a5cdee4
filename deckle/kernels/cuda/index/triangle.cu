// tril and triu: the elements on one side of a diagonal of the last two dims; 0 elsewhere.
//
// self, result: [..., rows, columns]. A thread an element: reads those kept once, writes all once.
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cuda {
namespace {

template <typename Item>
__global__ void __launch_bounds__(256)
    keep(const Item* self, Item* result, int64_t count, int64_t rows, int64_t columns, int64_t diagonal, bool lower) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (at >= count) return;
  const int64_t row = at / columns, beyond = at - row * columns - row % rows;  // the diagonal that the element is on
  result[at] = (lower ? beyond <= diagonal : beyond >= diagonal) ? self[at] : Item(0);
}

template <typename Item>
void run(const Context& context, const View& self, int64_t diagonal, bool lower, const View& result) {
  const int64_t count = self.numel();
  keep<<<static_cast<unsigned>((count + 255) / 256), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
      self.ptr<const Item>(), result.ptr<Item>(), count, self.sizes[self.ndim - 2], self.sizes[self.ndim - 1], diagonal, lower);
}

void triangle(const Context& context, const View& self, int64_t diagonal, bool lower, const View& result) {
  if (self.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  visit_item(self.dtype, [&]<typename T>(TypeTag<T>) { run<T>(context, self, diagonal, lower, result); });
  deckle::cuda::check_launch(context.device);
}

}  // namespace

void tril(const Context& context, const View& self, int64_t diagonal, const View& result) {
  triangle(context, self, diagonal, true, result);
}
void triu(const Context& context, const View& self, int64_t diagonal, const View& result) {
  triangle(context, self, diagonal, false, result);
}

}  // namespace deckle::kernels::cuda
