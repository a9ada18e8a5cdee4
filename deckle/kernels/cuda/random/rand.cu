// Uniform on [0, 1): the bits of the CPU's kernel.
#include <optional>
#include <span>

#include "deckle/kernels/cuda/random/philox.cuh"

namespace deckle::kernels::cuda {
namespace {

using random::uniform_of_two;

struct Uniform {
  void* data;
  DType dtype;
  int bits;  // of the significand
  __device__ void operator()(int64_t first, const uint32_t* words, int64_t count) const {
    const float unit = 1.0f / static_cast<float>(1 << bits);
    for (int i = 0; i < 4 && first + i < count; ++i)
      pointwise::store(static_cast<float>(words[i] >> (32 - bits)) * unit, data, dtype, first + i);
  }
};

struct WideUniform {
  double* data;
  __device__ void operator()(int64_t first, const uint32_t* words, int64_t count) const {
    for (int i = 0; i < 2 && first + i < count; ++i) data[first + i] = uniform_of_two(words + 2 * i);
  }
};

}  // namespace

void rand(const Context& context, std::span<const int64_t>, DType, PhiloxStream stream, const View& result) {
  if (result.dtype == DType::float64) return random::run<2>(context, stream, result.numel(), WideUniform{result.ptr<double>()});
  const int bits = result.dtype == DType::float32 ? 24 : result.dtype == DType::float16 ? 11 : 8;
  random::run<1>(context, stream, result.numel(), Uniform{result.data, result.dtype, bits});
}

}  // namespace deckle::kernels::cuda
