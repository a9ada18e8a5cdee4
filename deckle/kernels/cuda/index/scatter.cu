// scatter: result = self, with src[.., i, ..] written at [.., index[.., i, ..], ..] along dim, in the order of i, so that of
// several written to one place the last stays. scatter_zero: the same with zeros for src. scatter_backward: for each element of
// src the gradient of the place that it was written to, 0 where another was written later or where index does not reach.
//
// Each place keeps the number of the last element written there, a maximum, which no order of threads changes; then the elements
// that stay are written. Memory-bound: the index is read twice, 4 bytes a place and element more than an unordered scatter moves.
#include <limits>
#include <span>
#include <string>

#include "deckle/base/error.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/cuda/index/walked.cuh"
#include "deckle/kernels/cuda/pointwise/copy.h"

namespace deckle::kernels::cuda {
namespace {

using index::Fault;
using index::Indices;
using index::Walked;

constexpr int kThreads = 256;

/// last[place]: 1 + the number of the last element of the index that leads there.
__global__ void __launch_bounds__(kThreads) mark(Indices indices, uint32_t* last, Walked walked, int64_t count, Fault fault) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (n >= count) return;
  int64_t from = 0;
  atomicMax(&last[walked.places(n, walked.checked(indices.at(n), fault), from)], static_cast<uint32_t>(n + 1));
}

/// Calls body(place, place in the other operand, whether n is what stays at the place) for the element of this thread.
template <typename Body>
__device__ void for_element(const Indices& indices, const uint32_t* last, const Walked& walked, int64_t count, const Body& body) {
  const int64_t n = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (n >= count) return;
  const int64_t row = indices.at(n);
  int64_t other = 0;
  const int64_t place = walked.places(n, row >= 0 && row < walked.rows ? row : 0, other);
  body(place, other, last[place] == static_cast<uint32_t>(n + 1));
}

/// src null: zeros.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    write(Indices indices, const uint32_t* last, const T* src, T* result, Walked walked, int64_t count) {
  for_element(indices, last, walked, count, [&](int64_t place, int64_t from, bool stays) {
    if (stays) result[place] = src == nullptr ? T(0) : src[from];
  });
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    read(Indices indices, const uint32_t* last, const T* gradient, T* result, Walked walked, int64_t count) {
  for_element(indices, last, walked, count,
              [&](int64_t place, int64_t to, bool stays) { result[to] = stays ? gradient[place] : T(0); });
}

/// Marks the places of `written`, and calls launch(type tag, blocks, marks, how the index leads there).
template <typename Launch>
void for_marked(const Context& context, const View& written, int64_t dim, const View& index, const View& other,
                const Launch& launch) {
  const int64_t count = index.numel();
  if (count == 0) return;
  if (count >= std::numeric_limits<uint32_t>::max())
    throw Error("index has " + std::to_string(count) + " elements (expected fewer than 2^32 - 1 on a GPU)");
  const deckle::cuda::DeviceGuard guard(context.device);
  const int64_t bytes = written.numel() * static_cast<int64_t>(sizeof(uint32_t));
  const deckle::cuda::Block last(bytes, context.device);
  deckle::cuda::zero_bytes(last.as<void>(), context.device, bytes);
  const Walked walked(index, dim, written, other);
  const Indices at(index);
  const auto blocks = static_cast<unsigned>((count + kThreads - 1) / kThreads);
  mark<<<blocks, kThreads, 0, deckle::cuda::stream_handle(context.device)>>>(at, last.as<uint32_t>(), walked, count,
                                                                             Fault(context.device));
  visit_item(written.dtype, [&](auto item) { launch(item, blocks, at, last.as<uint32_t>(), walked); });
  deckle::cuda::check_launch(context.device);
}

/// A src without data is zeros.
void write_over(const Context& context, const View& self, int64_t dim, const View& index, const View& src, const View& result) {
  copy(context, self, result);
  for_marked(context, result, dim, index, src.data == nullptr ? index : src,
             [&]<typename T>(TypeTag<T>, unsigned blocks, const Indices& at, const uint32_t* last, const Walked& walked) {
               write<T><<<blocks, kThreads, 0, deckle::cuda::stream_handle(context.device)>>>(
                   at, last, static_cast<const T*>(src.data), result.ptr<T>(), walked, index.numel());
             });
}

}  // namespace

void scatter(const Context& context, const View& self, int64_t dim, const View& index, const View& src, const View& result) {
  write_over(context, self, dim, index, src, result);
}

void scatter_zero(const Context& context, const View& self, int64_t dim, const View& index, const View& result) {
  write_over(context, self, dim, index, {}, result);
}

void scatter_backward(const Context& context, const View& gradient, int64_t dim, const View& index, std::span<const int64_t>,
                      const View& result) {
  if (index.numel() != result.numel())
    deckle::cuda::zero_bytes(result.data, context.device, result.numel() * item_size(result.dtype));
  for_marked(context, gradient, dim, index, result,
             [&]<typename T>(TypeTag<T>, unsigned blocks, const Indices& at, const uint32_t* last, const Walked& walked) {
               read<T><<<blocks, kThreads, 0, deckle::cuda::stream_handle(context.device)>>>(
                   at, last, gradient.ptr<T>(), result.ptr<T>(), walked, index.numel());
             });
}

}  // namespace deckle::kernels::cuda
