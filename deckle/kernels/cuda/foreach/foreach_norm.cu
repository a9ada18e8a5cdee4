// The Euclidean norm of each tensor of a list, and the products of two lists.                                 Sums in double
#include <span>

#include "deckle/base/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/cuda/reduce/kinds.cuh"

namespace deckle::kernels::cuda {
namespace {

constexpr int kParts = 256;  // blocks of a tensor, by its size alone

/// A number among others, or none.
struct Divisor {
  const void* numbers;
  DType dtype;
  int64_t place;

  __device__ double value() const { return pointwise::load<double>(numbers, dtype, place); }
};

struct Factors {
  const void *a, *b;
  DType a_dtype, b_dtype;
  int64_t count;
  Divisor divisor;  // of elements of a, where kDivides
};

/// Block i adds up elements i 256 + thread, ...: parts[i].
template <bool kDivides>
__global__ void __launch_bounds__(256) products(Factors factors, double* parts) {
  __shared__ double shared[256];
  double sum = 0;
  const double divisor = kDivides ? factors.divisor.value() : 1;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x; i < factors.count; i += int64_t{256} * gridDim.x) {
    const double a = pointwise::load<double>(factors.a, factors.a_dtype, i);
    sum += (kDivides ? a / divisor : a) * pointwise::load<double>(factors.b, factors.b_dtype, i);
  }
  sum = reduce::merged<reduce::Sum<double>, 256>({}, sum, shared);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(256) add_parts(const double* parts, int count, Divisor divisor, double* result) {
  __shared__ double shared[256];
  const double sum =
      reduce::merged<reduce::Sum<double>, 256>({}, static_cast<int>(threadIdx.x) < count ? parts[threadIdx.x] : 0.0, shared);
  if (threadIdx.x == 0) *result = divisor.numbers != nullptr ? sum / divisor.value() : sum;
}

/// Products of doubles are divided one by one, others' sum, where `divisors` are given.
void dot_products(const Context& context, std::span<const View> self, std::span<const View> other, const View* divisors,
                  double* results) {
  const deckle::cuda::DeviceGuard guard(context.device);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  const deckle::cuda::Block parts(kParts * static_cast<int64_t>(sizeof(double)), context.device);
  for (size_t i = 0; i < self.size(); ++i) {
    const View &x = self[i], &y = other[i];
    if (x.ndim != y.ndim || !std::equal(x.sizes, x.sizes + x.ndim, y.sizes) || x.dtype != y.dtype)
      throw Error("the tensors " + std::to_string(i) + " of the lists differ in shape or dtype (expected the same)");
    const int64_t count = x.numel();
    const auto blocks = static_cast<int>(std::clamp<int64_t>((count + 1023) / 1024, 1, kParts));
    const Divisor none{nullptr, DType::float64, 0};
    const Divisor divisor = divisors == nullptr ? none : Divisor{divisors->data, divisors->dtype, static_cast<int64_t>(i)};
    const bool first = divisors != nullptr && x.dtype == DType::float64;
    const auto kernel = first ? &products<true> : &products<false>;
    kernel<<<static_cast<unsigned>(blocks), 256, 0, stream>>>({x.data, y.data, x.dtype, y.dtype, count, divisor},
                                                              parts.as<double>());
    add_parts<<<1, 256, 0, stream>>>(parts.as<double>(), blocks, first ? none : divisor, results + i);
  }
  deckle::cuda::check_launch(context.device);
}

}  // namespace

void foreach_norm(const Context& context, std::span<const View> self, const View& result) {
  for (size_t i = 0; i < self.size(); ++i)
    reduce::run<reduce::Length, double>({}, context, self[i], {}, {{result.ptr<double>() + i, DType::float64}, {}});
}

void foreach_dot(const Context& context, std::span<const View> self, std::span<const View> other, const View& result) {
  dot_products(context, self, other, nullptr, result.ptr<double>());
}

void foreach_dot_over(const Context& context, std::span<const View> self, std::span<const View> other, const View& divisor,
                      const View& result) {
  dot_products(context, self, other, &divisor, result.ptr<double>());
}

}  // namespace deckle::kernels::cuda
