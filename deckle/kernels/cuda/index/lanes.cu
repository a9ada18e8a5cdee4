// gather and scatter_add: elements by index along a dim, and elements added up by index. index, result and the source of a
// scatter agree in all dims but that one, or are larger there.
//
// Sums: additions.h.
#include <span>

#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/cuda/index/additions.h"
#include "deckle/kernels/cuda/index/fault.cuh"
#include "deckle/kernels/cuda/index/walked.cuh"
#include "deckle/kernels/cuda/pointwise/copy.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda {
namespace {

using index::Fault;
using index::Indices;
using index::Walked;

template <typename T>
__global__ void __launch_bounds__(256)
    take(const T* self, Indices indices, T* result, Walked walked, int64_t count, Fault fault) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (n >= count) return;
  int64_t unused = 0;
  result[n] = self[walked.places(n, walked.checked(indices.at(n), fault), unused)];
}

__global__ void __launch_bounds__(256)
    prepare(Indices indices, uint32_t* keys, uint32_t* positions, Walked walked, int64_t count, Fault fault) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (n >= count) return;
  int64_t from = 0;
  keys[n] = static_cast<uint32_t>(walked.places(n, walked.checked(indices.at(n), fault), from));
  positions[n] = static_cast<uint32_t>(from);
}

unsigned blocks_of(int64_t count) { return static_cast<unsigned>((count + 255) / 256); }

template <typename T>
void gather_of(const Context& context, const View& self, int64_t dim, const View& index, const View& result) {
  const Walked walked(index, dim, self, index);  // may throw, which must not be between the parts of a launch
  const Indices at(index);
  take<T><<<blocks_of(index.numel()), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
      self.ptr<T>(), at, result.ptr<T>(), walked, index.numel(), Fault(context.device));
}

}  // namespace

void gather(const Context& context, const View& self, int64_t dim, const View& index, const View& result) {
  if (index.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  visit_item(self.dtype, [&]<typename T>(TypeTag<T>) { gather_of<T>(context, self, dim, index, result); });
  deckle::cuda::check_launch(context.device);
}

namespace {

void add_at(const Context& context, int64_t dim, const View& index, const View& src, const View& result) {
  const int64_t count = index.numel();
  if (count == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const Walked walked(index, dim, result, src);
  const Indices at(index);
  const index::Additions additions(context, count, result, src);
  prepare<<<blocks_of(count), 256, 0, deckle::cuda::stream_handle(context.device)>>>(at, additions.keys(), additions.positions(),
                                                                                     walked, count, Fault(context.device));
  additions.add(context);
}

}  // namespace

void scatter_add(const Context& context, const View& self, int64_t dim, const View& index, const View& src, const View& result) {
  copy(context, self, result);
  add_at(context, dim, index, src, result);
}
void scatter_sum(const Context& context, const View& src, int64_t dim, const View& index, std::span<const int64_t>,
                 const View& result) {
  deckle::cuda::zero_bytes(result.data, context.device, result.numel() * item_size(result.dtype));
  add_at(context, dim, index, src, result);
}

}  // namespace deckle::kernels::cuda
