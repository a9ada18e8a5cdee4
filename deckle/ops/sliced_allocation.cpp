#include "deckle/ops/sliced_allocation.h"

#include <algorithm>
#include <vector>

#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/factory.h"

namespace deckle::launch {
namespace {

/// Whether both lie alike in one tensor.
bool alike(const Tensor& a, const Tensor& b) {
  return b.defined() && a.storage() == b.storage() && a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

}  // namespace

std::optional<Dims> joined_sizes(TensorList slices, int64_t dim) {
  const Tensor& first = slices[0];
  Dims sizes(first.sizes()), strides(first.strides());
  sizes.insert(sizes.begin() + dim, std::ssize(slices));
  const Dims whole = contiguous_strides(sizes);
  const int64_t step = whole[static_cast<size_t>(dim)];
  strides.insert(strides.begin() + dim, step);
  if (!(strides == whole)) return std::nullopt;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (!alike(first, slices[i]) || slices[i].offset() != first.offset() + static_cast<int64_t>(i) * step) return std::nullopt;
  }
  return sizes;
}

SlicedAllocation::SlicedAllocation(std::initializer_list<Tensor> operands, Device device) : device_(device) {
  if (!device.is_cuda() || operands.size() == 0) return;
  const Tensor& some = *operands.begin();
  if (!some.defined() || some.dim() < 2 || some.numel() == 0) return;
  std::vector<Tensor> slices;
  std::copy_if(operands.begin(), operands.end(), std::back_inserter(slices),
               [&](const Tensor& operand) { return alike(some, operand); });
  std::sort(slices.begin(), slices.end(), [](const Tensor& a, const Tensor& b) { return a.offset() < b.offset(); });
  if (slices.size() < 2) return;
  const std::optional<Dims> sizes = joined_sizes(slices, 1);
  if (!sizes) return;
  first_ = slices[0];
  whole_ = deckle::empty(*sizes, some.dtype(), device);
}

Tensor SlicedAllocation::empty_like(const Tensor& operand) const {
  if (!whole_.defined() || !alike(first_, operand)) return deckle::empty(operand.sizes(), operand.dtype(), device_);
  return alias(whole_, operand.sizes(), operand.strides(), operand.offset() - first_.offset());
}

}  // namespace deckle::launch
