// one_hot: int64 [..., classes], 1 at the class of each element and 0 elsewhere; concatenate_rows: row index[i] of the tensors,
// counted one after another. Both write every byte of the result once.
#include <span>
#include <string>
#include <vector>

#include "deckle/base/error.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cuda/index/fault.cuh"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda {
namespace {

using index::Fault;
using index::Indices;

__global__ void __launch_bounds__(256) ones(Indices indices, int64_t* result, int64_t count, int64_t classes, Fault fault) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (at >= count) return;
  const int64_t element = at / classes, place = at - element * classes, chosen = indices.at(element);
  if (place == 0 && (chosen < 0 || chosen >= classes)) fault.report(chosen, classes);
  result[at] = place == chosen ? 1 : 0;
}

/// starts[t] is the first row of tensor t, starts[tensors] the number of rows; data[t] its bytes.
struct Tensors {
  const int64_t* starts;
  const char* const* data;
  int64_t count;
};

/// The same in the parameters of a launch: nothing is uploaded, so that a graph can hold it.
constexpr int64_t kFew = 64;
struct FewTensors {
  int64_t starts[kFew + 1];
  const char* data[kFew];
  int64_t count;
};

template <typename Piece, class Table>
__global__ void __launch_bounds__(256)
    rows(const __grid_constant__ Table tensors, Indices indices, Piece* result, int64_t count, int64_t inner, Fault fault) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (at >= count) return;
  const int64_t i = at / inner;
  int64_t row = indices.at(i), low = 0, high = tensors.count;
  if (row < 0 || row >= tensors.starts[tensors.count]) {
    fault.report(row, tensors.starts[tensors.count]);
    row = 0;
  }
  while (high - low > 1) {
    const int64_t middle = (low + high) / 2;
    (tensors.starts[middle] <= row ? low : high) = middle;
  }
  while (low + 1 < tensors.count && tensors.starts[low + 1] <= row) ++low;  // empty ones
  result[at] = reinterpret_cast<const Piece*>(tensors.data[low])[(row - tensors.starts[low]) * inner + (at - i * inner)];
}

}  // namespace

void one_hot(const Context& context, const View& self, int64_t classes, const View& result) {
  const int64_t count = result.numel();
  if (count == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const Indices at(self);
  ones<<<static_cast<unsigned>((count + 255) / 256), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
      at, result.ptr<int64_t>(), count, classes, Fault(context.device));
  deckle::cuda::check_launch(context.device);
}

void concatenate_rows(const Context& context, std::span<const View> tensors, const View& index, std::span<const int64_t> lengths,
                      const View& result) {
  std::vector<int64_t> table = {0};  // the starts, then the addresses
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].sizes[0] != lengths[i])
      throw Error("lengths[" + std::to_string(i) + "] is " + std::to_string(lengths[i]) + ", tensor " + std::to_string(i) +
                  " has " + std::to_string(tensors[i].sizes[0]) + " rows (expected the same)");
    table.push_back(table.back() + lengths[i]);
  }
  if (result.numel() == 0) return;
  if (table.back() == 0)
    throw Error("index has " + std::to_string(index.numel()) +
                " elements, and the tensors have no rows (expected an index without elements)");
  uintptr_t together = reinterpret_cast<uintptr_t>(result.data);
  for (const View& tensor : tensors) {
    table.push_back(static_cast<int64_t>(reinterpret_cast<uintptr_t>(tensor.data)));
    if (tensor.numel() > 0) together |= reinterpret_cast<uintptr_t>(tensor.data);
  }
  const int64_t bytes = result.numel() / index.numel() * item_size(result.dtype);
  const deckle::cuda::DeviceGuard guard(context.device);
  const auto count = static_cast<int64_t>(tensors.size());
  const Indices at(index);
  const auto launch = [&](const auto& from, auto piece) {
    using Piece = decltype(piece);
    const int64_t pieces = result.numel() * item_size(result.dtype) / static_cast<int64_t>(sizeof(Piece));
    rows<Piece><<<static_cast<unsigned>((pieces + 255) / 256), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        from, at, result.ptr<Piece>(), pieces, bytes / static_cast<int64_t>(sizeof(Piece)), Fault(context.device));
  };
  const auto run = [&](const auto& from) {
    const uintptr_t fits = together | static_cast<uintptr_t>(bytes);
    if (fits % 16 == 0)
      launch(from, uint4());
    else if (fits % 4 == 0)
      launch(from, uint32_t());
    else if (fits % 2 == 0)
      launch(from, uint16_t());
    else
      launch(from, uint8_t());
    deckle::cuda::check_launch(context.device);
  };
  if (count <= kFew) {
    FewTensors few{};
    few.count = count;
    for (int64_t i = 0; i <= count; ++i) few.starts[i] = table[static_cast<size_t>(i)];
    for (int64_t i = 0; i < count; ++i) few.data[i] = static_cast<const char*>(tensors[static_cast<size_t>(i)].data);
    return run(few);
  }
  const deckle::cuda::Block memory(static_cast<int64_t>(table.size() * sizeof(int64_t)), context.device);
  deckle::cuda::copy_bytes(memory.as<void>(), context.device, table.data(), {},
                           static_cast<int64_t>(table.size() * sizeof(int64_t)));
  run(Tensors{memory.as<int64_t>(), reinterpret_cast<const char* const*>(memory.as<int64_t>() + count + 1), count});
}

}  // namespace deckle::kernels::cuda
