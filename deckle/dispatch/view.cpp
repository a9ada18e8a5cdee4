#include "deckle/dispatch/view.h"

#include "deckle/base/check.h"

namespace deckle::dispatch {
namespace {

/// All but the memory.
View geometry(const Tensor& tensor) {
  View result;
  const Ints sizes = tensor.sizes(), strides = tensor.strides();
  check(sizes.size() <= kMaxDims, "a tensor of {} dims (expected {} at most)", sizes.size(), kMaxDims);
  result.dtype = tensor.dtype();
  result.defined = true;
  result.ndim = static_cast<int>(sizes.size());
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    result.sizes[dim] = sizes[dim];
    result.strides[dim] = strides[dim];
  }
  return result;
}

}  // namespace

View view(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  View result = geometry(tensor);
  result.data = tensor.raw_data();
  return result;
}

View view_through_table(const Tensor& tensor) {
  const RepeatedRows* const repeated = tensor.defined() ? tensor.storage()->repeated() : nullptr;
  const bool whole = repeated != nullptr && tensor.is_contiguous() &&
                     tensor.numel() * item_size(tensor.dtype()) == tensor.storage()->bytes() &&
                     tensor.size(0) == repeated->ragged->rows() && tensor.size(0) > 1;
  if (!whole) return view(tensor);
  View result = geometry(tensor);
  result.data = repeated->rows->data();
  result.table = repeated->ragged->row_map().components().data();
  return result;
}

std::vector<View> views(TensorList tensors) {
  std::vector<View> result;
  result.reserve(tensors.size());
  for (const Tensor& tensor : tensors) result.push_back(view(tensor));
  return result;
}

RaggedView view(const Ragged& ragged) {
  check(ragged.defined(), Argument{"ragged"}, "is undefined (expected a ragged shape)");
  return {ragged->components(), ragged->ragged_dims(), ragged->sizes().data(), ragged->offsets().data(),
          ragged->order().empty() ? nullptr : ragged->order().data()};
}

}  // namespace deckle::dispatch
