// Chooses and launches the kernel of a pointwise expression. What must agree with the kernels is in operand.cuh.
#include "deckle/kernels/cuda/pointwise/launch.h"

#include <algorithm>

#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/cpu/pointwise/walk.h"
#include "deckle/kernels/cuda/pointwise/flat_walk.cuh"

namespace deckle::kernels::cuda::pointwise {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxOperands = cpu::pointwise::kMaxOperands;
// Kernels of fewer operands read the front of these: what lies behind is not even cleared.
using AnyWalk = Walk<kMaxOperands>;
using AnyFlatWalk = FlatWalk<kMaxOperands>;

/// Whether vectors may be used: every tensor's innermost dim is contiguous (the result's too) or one number, and aligned.
bool fits_vectors(const AnyWalk& walk, DType compute, int operands) {
  for (int i = 0; i < operands; ++i) {
    const Operand& operand = walk.operands[i];
    if (operand.is_number) continue;
    const bool result = i + 1 == operands;
    if (operand.strides[0] == 0 && !result && walk.inner > 1) continue;
    if (operand.strides[0] != 1) return false;
    const bool readable = compute == DType::float32   ? vectors_of<float>(operand.dtype)
                          : compute == DType::float64 ? vectors_of<double>(operand.dtype)
                                                      : vectors_of<int64_t>(operand.dtype);
    if (!readable) return false;
    const int64_t item = item_size(operand.dtype), rest = std::min<int64_t>(16, kWidth * item) - 1;  // of powers of two
    if ((reinterpret_cast<intptr_t>(operand.data) & rest) != 0) return false;
    for (int dim = 1; dim < walk.dims; ++dim) {
      if ((operand.strides[dim] * item & rest) != 0) return false;
    }
  }
  return walk.dims == 1 || walk.inner % kWidth == 0;
}

/// `walk` is what the kernel gets.
void launch(const void* kernel, const Context& context, void* walk, int64_t blocks, int threads = kThreads) {
  const deckle::cuda::DeviceGuard guard(context.device);
  void* arguments[] = {walk};
  deckle::cuda::check_call(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(threads)),
                                            arguments, 0, deckle::cuda::stream_handle(context.device)),
                           "a kernel");
  deckle::cuda::check_launch(context.device);
}

/// Of bfloat16: a thread of the contiguous kernels takes more elements than one of the others, so fewer would not fill a GPU. Of
/// float32 it takes no more.
constexpr int64_t kFlatFrom = 1 << 16;  // elements

/// The kernel of contiguous operands of one dtype, which may have one row of whole vectors for all rows, and what it gets; null:
/// they are others.
Flat flat_of(const Kernels& kernels, const cpu::pointwise::Walk& shape, DType compute, std::span<const Number> numbers,
             AnyFlatWalk& walk) {
  const int tensors = shape.inputs, last = tensors + static_cast<int>(numbers.size());
  const DType dtype = shape.operands[static_cast<size_t>(tensors)].dtype;
  const bool narrow = dtype == DType::bfloat16, in_rows = shape.dims == 2;
  if ((!narrow && dtype != DType::float32) || compute != DType::float32 || shape.dims > 2) return {};
  const int64_t count = shape.numel(), width = 16 / item_size(dtype);
  if (narrow && count < kFlatFrom) return {};
  if (in_rows && (last < 2 || count >= int64_t{1} << 31 || shape.sizes[0] % width != 0)) return {};
  for (int i = 0; i <= tensors; ++i) {
    const cpu::pointwise::Operand& from = shape.operands[static_cast<size_t>(i)];
    if (from.dtype != dtype || from.strides[0] != 1 || reinterpret_cast<uintptr_t>(from.data) % 16 != 0) return {};
    const bool one_row = in_rows && from.strides[1] == 0 && i < tensors;
    if (in_rows && from.strides[1] != shape.sizes[0] && !one_row) return {};
    walk.operands[i < tensors ? i : last] = {from.data, 0, false, one_row};
  }
  for (int i = tensors; i < last; ++i)
    walk.operands[i] = {nullptr, static_cast<float>(numbers[static_cast<size_t>(i - tensors)].real), true, false};
  walk.elements = count;
  walk.vectors = count / width;
  walk.in_rows = in_rows;
  if (in_rows) walk.row = Divisor(shape.sizes[0] / width);
  return narrow ? kernels.flat.bfloat16 : kernels.flat.float32;
}

}  // namespace

void run(const Kernels& kernels, const Context& context, DType compute, std::span<const View> inputs,
         std::span<const Number> numbers, const View& result) {
  if (result.numel() == 0) return;
  const cpu::pointwise::Walk shape = cpu::pointwise::make_walk(inputs, {&result, 1});
  AnyFlatWalk flat_walk;
  if (const Flat flat = flat_of(kernels, shape, compute, numbers, flat_walk); flat.kernel != nullptr) {
    const int64_t each = int64_t{flat.threads} * flat.together, blocks = (flat_walk.vectors + each - 1) / each;
    return launch(flat.kernel, context, &flat_walk, std::max<int64_t>(blocks, 1), flat.threads);
  }
  AnyWalk walk;
  walk.dims = shape.dims;
  walk.inner = shape.sizes[0];
  walk.count = shape.numel();
  walk.small = walk.count < (int64_t{1} << 31);
  const int tensors = static_cast<int>(inputs.size()), last = tensors + static_cast<int>(numbers.size());
  for (int i = 0; i <= tensors; ++i) {
    const cpu::pointwise::Operand& from = shape.operands[static_cast<size_t>(i)];
    Operand& to = walk.operands[i < tensors ? i : last];
    to.data = from.data;
    to.dtype = from.dtype;
    to.is_number = false;
    for (int dim = 0; dim < shape.dims; ++dim) to.strides[dim] = from.strides[dim];
  }
  for (int i = 0; i < static_cast<int>(numbers.size()); ++i) {
    Operand& to = walk.operands[tensors + i];
    to.real = numbers[static_cast<size_t>(i)].real;
    to.integer = numbers[static_cast<size_t>(i)].integer;
    to.is_number = true;
    for (int dim = 0; dim < shape.dims; ++dim) to.strides[dim] = 0;
  }
  const Pair& pair = compute == DType::float32 ? kernels.f32 : compute == DType::float64 ? kernels.f64 : kernels.i64;
  const bool vectors = fits_vectors(walk, compute, last + 1);
  for (int dim = 0; dim < shape.dims; ++dim) walk.sizes[dim] = shape.sizes[dim];
  int64_t blocks = (walk.count + kThreads - 1) / kThreads;
  if (vectors) {
    walk.sizes[0] = (walk.inner + kWidth - 1) / kWidth;
    walk.count = walk.sizes[0];
    for (int dim = 1; dim < shape.dims; ++dim) walk.count *= shape.sizes[dim];
    blocks = (walk.count + kThreads * pair.together - 1) / (kThreads * pair.together);
  } else {
    blocks = std::min<int64_t>(blocks, 1 << 20);
  }
  // What is left of an index is that of the outermost dim.
  for (int dim = 0; dim + 1 < shape.dims && walk.small; ++dim) walk.divisors[dim] = Divisor(walk.sizes[dim]);
  launch(vectors ? pair.vectors : pair.single, context, &walk, blocks);
}

}  // namespace deckle::kernels::cuda::pointwise
