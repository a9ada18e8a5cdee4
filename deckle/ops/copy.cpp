#include "deckle/ops/copy.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "deckle/base/check.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/uses.h"
#include "deckle/core/factory_device.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/dispatch/kernel_row.h"
#include "deckle/dispatch/view.h"
#include "deckle/ops/promotion.h"

namespace deckle::kernels::cpu {
void copy(const Context&, const View& source, const View& target);
}
namespace deckle::kernels::cuda {
void copy(const Context&, const View& source, const View& target);
void fill(const Context&, const Number& value, const View& target);
}  // namespace deckle::kernels::cuda

namespace deckle::native {
namespace {

// Every op that moves elements without computing goes through this one row; it has no entry because its result is an
// argument of any strides, which no allocation rule gives.
constexpr dispatch::KernelRow<void(const Context&, const View&, const View&)> kCopy{&kernels::cpu::copy,
                                                                                    DECKLE_CUDA_KERNEL(copy)};

/// A view of it, without dims.
template <typename T>
View one_element(const T& element) {
  View result;
  result.data = const_cast<T*>(&element);
  result.dtype = dtype_of<T>;
  result.defined = true;
  return result;
}

/// One element, copied everywhere.
void fill_by_copy(const Context& context, const Number& value, const View& target) {
  View source = target;
  std::fill_n(source.strides, kMaxDims, 0);
  visit(target.dtype, [&]<typename T>(TypeTag<T>) {
    T element{};
    if constexpr (std::is_integral_v<T>)
      element = static_cast<T>(value.integer);
    else if constexpr (std::is_same_v<T, double>)
      element = value.real;
    else if constexpr (std::is_same_v<T, float>)
      element = static_cast<float>(value.real);
    else
      kernels::cpu::copy(context, one_element(value.real), one_element(element));  // rounds once
    source.data = &element;
    kernels::cpu::copy(context, source, target);
  });
}

constexpr dispatch::KernelRow<void(const Context&, const Number&, const View&)> kFill{&fill_by_copy, DECKLE_CUDA_KERNEL(fill)};

struct Extent {
  int64_t first, last;  // bytes in the storage
};

Extent extent_of(const Tensor& tensor) {
  int64_t first = tensor.offset(), last = tensor.offset();
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    const int64_t reach = (tensor.size(dim) - 1) * tensor.stride(dim);
    (reach < 0 ? first : last) += reach;
  }
  return {first * item_size(tensor.dtype()), (last + 1) * item_size(tensor.dtype())};
}

bool may_overlap(const Tensor& a, const Tensor& b) {
  if (a.storage() != b.storage()) return false;
  const Extent x = extent_of(a), y = extent_of(b);
  return x.first < y.last && y.first < x.last;
}

void copy_views(const Tensor& target, const Tensor& source) {
  const View from = dispatch::view(source);
  View to = dispatch::view(target);
  View expanded = to;
  expanded.data = from.data;
  expanded.dtype = from.dtype;
  const int missing = to.ndim - from.ndim;
  for (int dim = 0; dim < to.ndim; ++dim) {
    const bool broadcast = dim < missing || (from.sizes[dim - missing] == 1 && to.sizes[dim] != 1);
    check(broadcast || from.sizes[dim - missing] == to.sizes[dim], "source of shape {} does not broadcast to {}", source.sizes(),
          target.sizes());
    expanded.strides[dim] = broadcast ? 0 : from.strides[dim - missing];
  }
  kCopy.on(target.device())(Context{target.device()}, expanded, to);
}

}  // namespace

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && a.offset() == b.offset() && a.dtype() == b.dtype() && a.sizes() == b.sizes() &&
         a.strides() == b.strides();
}

void check_writable(const Tensor& target) {
  check(target.is_contiguous() || distinct_places(target.sizes(), target.strides()),
        "the tensor to write into, of shape {} and strides {}, has several elements in one place (expected its clone)",
        target.sizes(), target.strides());
}

/// As a double whose last bit says whether digits were cut off, so that what is narrower is rounded once.
static double rounded_to_odd(int64_t value) {
  const auto magnitude = value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const int cut = std::max(static_cast<int>(std::bit_width(magnitude)) - std::numeric_limits<double>::digits, 0);
  const uint64_t kept = magnitude >> cut, odd = kept | static_cast<uint64_t>(kept << cut != magnitude);
  const double result = std::ldexp(static_cast<double>(odd), cut);
  return value < 0 ? -result : result;
}

Number number_for(const Scalar& value, DType dtype) {
  const int64_t integer = dtype == DType::bool_ ? !value.is_zero() : is_integral(dtype) ? integer_of(value, dtype) : 0;
  const bool narrow = is_floating(dtype) && dtype != DType::float64 && !value.is_floating();
  const double real = narrow ? rounded_to_odd(value.to_int64()) : value.to_double();
  return {real, integer};
}

void fill(const Tensor& target, const Scalar& value) {
  if (target.numel() == 0) return;
  kFill.on(target.device())(Context{target.device()}, number_for(value, target.dtype()), dispatch::view(target));
}

Tensor move_to(const Tensor& source, Device device) {
  if (source.device() == device) return source;
  const Tensor from = contiguous(source);
  Tensor result = empty(source.sizes(), source.dtype(), device);
  if (from.device().is_cuda()) cuda::use(from.storage()->data(), from.device());
  cuda::copy_bytes(address(result), device, address(from), from.device(), from.numel() * item_size(from.dtype()));
  return result;
}

Tensor on_host(const Tensor& source) { return move_to(contiguous(source), Device()); }

Tensor upload(const Tensor& made) { return move_to(made, factory_device()); }

void copy_into(const Tensor& target, const Tensor& source) {
  if (target.numel() > 0 && target.device() != source.device()) return copy_into(target, move_to(source, target.device()));
  check(source.dim() <= target.dim(), "source of shape {} does not broadcast to {}", source.sizes(), target.sizes());
  if (target.numel() == 0 || same_elements(target, source)) return;
  copy_views(target, may_overlap(target, source) ? copy_as(source, source.dtype()) : source);
}

void copy_reversed(const Tensor& target, const Tensor& source, IntSpan dims) {
  View from = dispatch::view(source);
  auto* first = static_cast<char*>(from.data);
  for (const int64_t given : dims) {
    const auto dim = static_cast<size_t>(wrap_dim(given, source.sizes()));
    if (source.dim() == 0 || source.numel() == 0) continue;
    first += (from.sizes[dim] - 1) * from.strides[dim] * item_size(from.dtype);
    from.strides[dim] = -from.strides[dim];
  }
  from.data = first;
  if (target.numel() > 0) kernels::cpu::copy(Context{}, from, dispatch::view(target));
}

Tensor copy_as(const Tensor& source, DType dtype) {
  Tensor result = empty(source.sizes(), dtype, source.device());
  if (result.numel() > 0) copy_views(result, source);
  return result;
}

bool is_permuted(const Tensor& tensor) {
  if (tensor.is_contiguous()) return false;
  const IntSpan sizes = tensor.sizes(), strides = tensor.strides();
  int64_t reach = 1;
  for (int64_t covered = 1; covered < tensor.numel();) {  // from the innermost dim outwards
    size_t next = 0;
    while (next < sizes.size() && (sizes[next] == 1 || strides[next] != reach)) ++next;
    if (next == sizes.size()) return false;
    covered *= sizes[next];
    reach *= sizes[next];
  }
  return true;
}

Tensor empty_permuted(const Tensor& like, DType dtype) {
  const Tensor memory = empty({like.numel()}, dtype, like.device());
  return alias(memory, like.sizes(), like.strides(), 0);
}

Tensor contiguous(const Tensor& tensor) { return tensor.is_contiguous() ? tensor : copy_as(tensor, tensor.dtype()); }

}  // namespace deckle::native
