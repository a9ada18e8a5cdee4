// Rows by index, and a number where there is none: by hand, because the kernels take it as what fill_ makes of it.

#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/dispatch/kernel_row.h"
#include "deckle/dispatch/view.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace kernels::cpu {
void index_select_or(const Context&, const View& self, const View& index, const Number& fill, const View& result);
}
namespace kernels::cuda {
decltype(cpu::index_select_or) index_select_or;
}

namespace {

constexpr dispatch::KernelRow kIndexSelectOr{&kernels::cpu::index_select_or, DECKLE_CUDA_KERNEL(index_select_or)};

}  // namespace

Tensor native::index_select_or(const Tensor& self, const Tensor& index, const Scalar& fill) {
  check(self.dim() >= 1 && index.dim() == 1, "self has shape {} and index {} (expected dims and a vector)", self.sizes(),
        index.sizes());
  check(index.dtype() == DType::int64 || index.dtype() == DType::int32, Argument{"index"}, "is {} (expected int64 or int32)",
        name(index.dtype()));
  const Device device = dispatch::common_device({self, index});
  Dims sizes(self.sizes());
  sizes[0] = index.numel();
  const Tensor rows = native::contiguous(self), places = native::contiguous(index), result = empty(sizes, self.dtype(), device);
  kIndexSelectOr.on(device)(Context{device}, dispatch::view(rows), dispatch::view(places), number_for(fill, self.dtype()),
                            dispatch::view(result));
  return result;
}

}  // namespace deckle
