// The elements of a tensor as numbers of the host: Tensor::to_vector and item.
#include <cstdlib>
#include <vector>

#include "deckle/base/check.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/uses.h"
#include "deckle/core/rethrow.h"
#include "deckle/core/scalar.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/kernels/args/view.h"
#include "deckle/ops/copy.h"

namespace deckle {
namespace {

template <typename To, typename From>
To convert_value(From value) {
  if constexpr (std::is_same_v<To, int64_t> && is_floating(dtype_of<From>))
    return to_integer(static_cast<double>(value));
  else
    return static_cast<To>(value);
}

/// The same elements of a GPU's tensor without the memory between them, made there: of a column of a matrix the host would copy
/// the matrix. Elements that are shown several times stay one.
Tensor without_gaps(const Tensor& tensor) {
  if (tensor.dim() > kMaxDims) return tensor;
  Dims distinct(tensor.sizes());
  int64_t count = 1, reach = 1;
  for (size_t dim = 0; dim < distinct.size(); ++dim) {
    const int64_t stride = tensor.strides()[dim];
    if (stride == 0) distinct[dim] = 1;
    count *= distinct[dim];
    reach += (distinct[dim] - 1) * std::abs(stride);
  }
  if (reach <= count) return tensor;
  const Tensor packed = native::copy_as(alias(tensor, distinct, tensor.strides(), tensor.offset()), tensor.dtype());
  Dims strides(packed.strides());
  for (size_t dim = 0; dim < strides.size(); ++dim) {
    if (tensor.strides()[dim] == 0) strides[dim] = 0;
  }
  return alias(packed, tensor.sizes(), strides, 0);
}

/// The memory between a tensor's outermost elements, for the host to read: where it is, or a copy.
class OnHost {
 public:
  explicit OnHost(const TensorImpl& impl) : data_(static_cast<char*>(impl.storage->data())) {
    const int64_t item = item_size(impl.dtype);
    data_ += impl.offset * item;
    if (impl.storage->device().is_cpu()) return;
    int64_t before = 0, after = 0;
    for (size_t dim = 0; dim < impl.sizes.size(); ++dim) {
      const int64_t reach = (impl.sizes[dim] - 1) * impl.strides[dim];
      (reach < 0 ? before : after) += reach;
    }
    cuda::use(impl.storage->data(), impl.storage->device());
    copy_.resize(static_cast<size_t>((after - before + 1) * item));
    cuda::copy_bytes(copy_.data(), {}, data_ + before * item, impl.storage->device(), static_cast<int64_t>(copy_.size()));
    data_ = copy_.data() - before * item;
  }
  const void* first() const { return data_; }

 private:
  char* data_;
  std::vector<char> copy_;
};

/// All elements in row-major order.
template <typename To>
std::vector<To> elements(const Tensor& tensor) {
  std::vector<To> values;
  if (tensor.numel() == 0) return values;
  values.reserve(static_cast<size_t>(tensor.numel()));
  const Tensor read = tensor.device().is_cpu() ? tensor : without_gaps(tensor);
  const TensorImpl& impl = *read.impl();
  const OnHost memory(impl);
  visit(impl.dtype, [&]<typename From>(TypeTag<From>) {
    const From* const data = static_cast<const From*>(memory.first());
    Dims index(impl.sizes.size());
    int64_t position = 0;
    while (true) {
      values.push_back(convert_value<To>(data[position]));
      size_t dim = impl.sizes.size();
      while (dim-- > 0) {
        position += impl.strides[dim];
        if (++index[dim] < impl.sizes[dim]) break;
        position -= impl.sizes[dim] * impl.strides[dim];
        index[dim] = 0;
      }
      if (dim == static_cast<size_t>(-1)) break;
    }
  });
  return values;
}

}  // namespace

std::vector<double> Tensor::to_doubles() const try { return elements<double>(*this); } catch (...) {
  rethrow_from("to_vector");
}
std::vector<int64_t> Tensor::to_integers(Range range) const try {
  std::vector<int64_t> values = elements<int64_t>(*this);
  for (const int64_t value : values)
    check(value >= range.low && value <= range.high, "element {} is out of range (expected {}..{}; int64_t holds all integers)",
          value, range.low, range.high);
  return values;
} catch (...) {
  rethrow_from("to_vector");
}
std::vector<bool> Tensor::to_bools() const {
  const std::vector<double> values = to_doubles();
  std::vector<bool> result(values.size());
  for (size_t i = 0; i < values.size(); ++i) result[i] = values[i] != 0;
  return result;
}

}  // namespace deckle
