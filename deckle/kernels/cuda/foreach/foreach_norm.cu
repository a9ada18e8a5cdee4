// The Euclidean norm of each tensor of a list, and the products of two lists.                                 Sums in double
#include <span>

#include "deckle/base/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/cuda/reduce/kinds.cuh"

namespace deckle::kernels::cuda {
namespace {

constexpr int kParts = 256;  // blocks of a tensor, by its size alone

struct Factors {
  const void *a, *b;
  DType a_dtype, b_dtype;
  int64_t count;
};

/// Block i adds up elements i 256 + thread, ...: parts[i].
__global__ void __launch_bounds__(256) products(Factors factors, double* parts) {
  __shared__ double shared[256];
  double sum = 0;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x; i < factors.count; i += int64_t{256} * gridDim.x)
    sum += pointwise::load<double>(factors.a, factors.a_dtype, i) * pointwise::load<double>(factors.b, factors.b_dtype, i);
  sum = reduce::merged<reduce::Sum<double>, 256>({}, sum, shared);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(256) add_parts(const double* parts, int count, double* result) {
  __shared__ double shared[256];
  const double sum =
      reduce::merged<reduce::Sum<double>, 256>({}, static_cast<int>(threadIdx.x) < count ? parts[threadIdx.x] : 0.0, shared);
  if (threadIdx.x == 0) *result = sum;
}

}  // namespace

void foreach_norm(const Context& context, std::span<const View> self, const View& result) {
  for (size_t i = 0; i < self.size(); ++i)
    reduce::run<reduce::Length, double>({}, context, self[i], {}, {{result.ptr<double>() + i, DType::float64}, {}});
}

void foreach_dot(const Context& context, std::span<const View> self, std::span<const View> other, const View& result) {
  const deckle::cuda::DeviceGuard guard(context.device);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  const deckle::cuda::Block parts(kParts * static_cast<int64_t>(sizeof(double)), context.device);
  for (size_t i = 0; i < self.size(); ++i) {
    const View &x = self[i], &y = other[i];
    if (x.ndim != y.ndim || !std::equal(x.sizes, x.sizes + x.ndim, y.sizes) || x.dtype != y.dtype)
      throw Error("the tensors " + std::to_string(i) + " of the lists differ in shape or dtype (expected the same)");
    const int64_t count = x.numel();
    const auto blocks = static_cast<int>(std::clamp<int64_t>((count + 1023) / 1024, 1, kParts));
    products<<<static_cast<unsigned>(blocks), 256, 0, stream>>>({x.data, y.data, x.dtype, y.dtype, count}, parts.as<double>());
    add_parts<<<1, 256, 0, stream>>>(parts.as<double>(), blocks, result.ptr<double>() + i);
  }
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda
