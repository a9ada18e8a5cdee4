#include "deckle/ops/spare_rows.h"

#include "deckle/dispatch/kernel_row.h"
#include "deckle/dispatch/view.h"

namespace deckle {

namespace kernels::cpu {
void clear_spare_rows(const Context&, const View& values, const View& offsets);
}
namespace kernels::cuda {
decltype(cpu::clear_spare_rows) clear_spare_rows;
}

namespace native {
namespace {

constexpr dispatch::KernelRow kClear{&kernels::cpu::clear_spare_rows, DECKLE_CUDA_KERNEL(clear_spare_rows)};

}  // namespace

void clear_spare_rows(const Tensor& values, const RaggedRoom& room) {
  const Device device = dispatch::common_device({values, room.offsets});
  kClear.on(device)(Context{device}, dispatch::view(values), dispatch::view(room.offsets));
}

}  // namespace native
}  // namespace deckle
