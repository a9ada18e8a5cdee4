#include "deckle/core/tensor.h"

#include <algorithm>
#include <cstring>

#include "deckle/base/check.h"
#include "deckle/base/parallel.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/uses.h"
#include "deckle/core/tensor_impl.h"

namespace deckle {
namespace {

const TensorImpl& impl_of(const Tensor& tensor) {
  if (!tensor.defined()) [[unlikely]]
    call_as("Tensor", [] { fail("the tensor is undefined (expected a defined one)"); });
  return *tensor.impl();
}

/// dims = values, of dims that are empty.
void set(Dims& dims, IntSpan values) {
  dims.resize(values.size());
  std::copy(values.begin(), values.end(), dims.data());
}

/// The position among sizes and strides of a dim counted from either end.
size_t dim_with_size(const Tensor& tensor, int64_t dim) {
  check(tensor.dim() > 0, Argument{"dim"}, "{} is out of range for a tensor without dims (expected a tensor with dims)", dim);
  return static_cast<size_t>(wrap_dim(dim, tensor.sizes()));
}

}  // namespace

int64_t Tensor::dim() const { return static_cast<int64_t>(impl_of(*this).sizes.size()); }
const Dims& Tensor::sizes() const& { return impl_of(*this).sizes; }
const Dims& Tensor::strides() const& { return impl_of(*this).strides; }
int64_t Tensor::numel() const { return impl_of(*this).numel; }
int64_t Tensor::offset() const { return impl_of(*this).offset; }
DType Tensor::dtype() const { return impl_of(*this).dtype; }
Device Tensor::device() const { return impl_of(*this).storage->device(); }
const std::shared_ptr<Storage>& Tensor::storage() const { return impl_of(*this).storage; }
uint64_t Tensor::version() const { return impl_of(*this).storage->version(); }

int64_t Tensor::size(IntArg dim) const {
  return sizes()[call_as("size", [&] { return dim_with_size(*this, dim); })];
}

int64_t Tensor::stride(IntArg dim) const {
  return strides()[call_as("stride", [&] { return dim_with_size(*this, dim); })];
}

bool Tensor::is_contiguous() const {
  const TensorImpl& impl = impl_of(*this);
  if (impl.numel == 0) return true;
  int64_t expected = 1;
  for (size_t dim = impl.sizes.size(); dim-- > 0;) {
    if (impl.sizes[dim] != 1 && impl.strides[dim] != expected) return false;
    expected *= impl.sizes[dim];
  }
  return true;
}

void* Tensor::raw_data() const {
  const Device device = impl_of(*this).storage->device();
  if (!device.is_cpu()) [[unlikely]]
    fail("the tensor is on {}, whose memory the host cannot read (expected one on the cpu: x.to(Device()))", to_string(device));
  return address(*this);
}

void* address(const Tensor& tensor) {
  const TensorImpl& impl = impl_of(tensor);
  if (impl.numel == 0) return nullptr;
  return static_cast<char*>(impl.storage->data()) + impl.offset * item_size(impl.dtype);
}

void Tensor::require_dtype(DType wanted) const {
  call_as("data", [&] { check(dtype() == wanted, "the tensor is {} (expected {})", name(dtype()), name(wanted)); });
}

void Tensor::check_item() const {
  if (numel() != 1) call_as("item", [&] { fail("the tensor has shape {} (expected one element)", to_string(sizes())); });
}

Tensor make_tensor(std::shared_ptr<Storage> storage, IntSpan sizes, IntSpan strides, int64_t offset, DType dtype) {
  auto impl = std::make_shared<TensorImpl>();
  impl->numel = numel_of(sizes);
  if (impl->numel > 0) {
    int64_t first = offset, last = offset;
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      int64_t extent = 0;
      if (__builtin_mul_overflow(sizes[dim] - 1, strides[dim], &extent) ||
          __builtin_add_overflow(extent < 0 ? first : last, extent, extent < 0 ? &first : &last)) {
        fail("shape {} with strides {} overflows 64 bits", to_string(sizes), to_string(strides));
      }
    }
    if (first < 0 || last >= storage->bytes() / item_size(dtype)) {
      fail("shape {} with strides {} and offset {} leaves its storage (expected places among its {} elements)", to_string(sizes),
           to_string(strides), offset, storage->bytes() / item_size(dtype));
    }
  }
  impl->storage = std::move(storage);
  set(impl->sizes, sizes);
  set(impl->strides, strides);
  impl->offset = offset;
  impl->dtype = dtype;
  return Tensor(std::move(impl));
}

Tensor empty_raw(IntSpan sizes, DType dtype, Device device) {
  int64_t bytes = 0;
  const int64_t count = numel_of(sizes);
  check(!__builtin_mul_overflow(count, item_size(dtype), &bytes), "shape {} has too many bytes (expected fewer than 2^63)",
        sizes);
  auto impl = std::make_shared<TensorImpl>();
  impl->storage = std::make_shared<Storage>(bytes, device);
  impl->numel = count;
  set(impl->sizes, sizes);
  impl->strides = contiguous_strides(sizes);
  impl->dtype = dtype;
  return Tensor(std::move(impl));
}

Tensor empty(Ints sizes, DType dtype, Device device) try { return empty_raw(sizes, dtype, device); } catch (...) {
  rethrow_from("empty");
}

namespace {

/// Large ones by several threads.
void zero_host_bytes(char* memory, int64_t bytes) {
  constexpr int64_t kPiece = 1 << 18;
  parallel_for(bytes, kPiece,
               [&](int64_t begin, int64_t end) { std::memset(memory + begin, 0, static_cast<size_t>(end - begin)); });
}

}  // namespace

Tensor zeros_raw(IntSpan sizes, DType dtype, Device device) {
  Tensor result = empty_raw(sizes, dtype, device);
  const int64_t bytes = result.numel() * item_size(dtype);
  if (bytes == 0) return result;
  if (device.is_cuda()) {
    cuda::use(result.storage()->data(), device);  // a graph that only clears it writes it all the same
    cuda::zero_bytes(address(result), device, bytes);
  } else {
    zero_host_bytes(static_cast<char*>(address(result)), bytes);
  }
  return result;
}

Tensor alias(const Tensor& tensor, IntSpan sizes, IntSpan strides, int64_t offset) {
  return make_tensor(tensor.storage(), sizes, strides, offset, tensor.dtype());
}

}  // namespace deckle
