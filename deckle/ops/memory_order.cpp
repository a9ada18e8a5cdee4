#include "deckle/ops/memory_order.h"

#include <algorithm>

#include "deckle/core/tensor_impl.h"
#include "deckle/ops/copy.h"

namespace deckle::launch {

MemoryOrder::MemoryOrder(std::initializer_list<const Tensor*> operands) {
  find(**operands.begin());
  if (!std::all_of(operands.begin(), operands.end(), [&](const Tensor* operand) { return fits(*operand); })) order_.clear();
}

/// By stride; dims of one element, whose strides say nothing, go first.
void MemoryOrder::find(const Tensor& first) {
  if (!first.defined() || !first.device().is_cpu() || first.numel() == 0 || !native::is_permuted(first)) return;
  for (int64_t dim = 0; dim < first.dim(); ++dim) order_.push_back(dim);
  const auto outside = [&](int64_t a, int64_t b) {
    const bool one_a = first.size(a) == 1, one_b = first.size(b) == 1;
    return one_a != one_b ? one_a : !one_a && first.stride(a) > first.stride(b);
  };
  std::stable_sort(order_.begin(), order_.end(), outside);
}

bool MemoryOrder::fits(const Tensor& operand) const {
  if (order_.empty() || !operand.defined() || !operand.device().is_cpu() || operand.dim() != std::ssize(order_)) return false;
  int64_t reach = 1;
  for (size_t i = order_.size(); i-- > 0;) {
    const int64_t size = operand.size(order_[i]);
    if (size != 1 && operand.stride(order_[i]) != reach) return false;
    reach *= size;
  }
  return true;
}

Tensor MemoryOrder::permute(const Tensor& operand) const {
  return alias(operand, permute(operand.sizes()), permute(operand.strides()), operand.offset());
}

int64_t MemoryOrder::permute(int64_t dim) const { return std::find(order_.begin(), order_.end(), dim) - order_.begin(); }

Dims MemoryOrder::permute(IntSpan sizes) const {
  Dims result;
  for (const int64_t dim : order_) result.push_back(sizes[static_cast<size_t>(dim)]);
  return result;
}

Tensor MemoryOrder::restore(const Tensor& result) const {
  Dims sizes(result.sizes()), strides(result.strides());
  for (size_t i = 0; i < order_.size(); ++i) {
    sizes[static_cast<size_t>(order_[i])] = result.sizes()[i];
    strides[static_cast<size_t>(order_[i])] = result.strides()[i];
  }
  return alias(result, sizes, strides, result.offset());
}

}  // namespace deckle::launch
