// bernoulli with the CPU's bits: 1 where the element's word, as a fraction, is below its probability.
#include "deckle/kernels/cuda/random/philox.cuh"

namespace deckle::kernels::cuda {
namespace {

struct Bernoulli {
  const void* probability;
  void* to;
  DType dtype;
  __device__ void operator()(int64_t first, const uint32_t* words, int64_t count) const {
    for (int i = 0; i < 4 && first + i < count; ++i) {
      const bool chosen = static_cast<double>(words[i]) * 0x1p-32 < pointwise::load<double>(probability, dtype, first + i);
      pointwise::store(chosen ? 1.0f : 0.0f, to, dtype, first + i);
    }
  }
};

}  // namespace

void bernoulli(const Context& context, const View& self, PhiloxStream stream, const View& result) {
  random::run<1>(context, stream, result.numel(), Bernoulli{self.data, result.data, self.dtype});
}

}  // namespace deckle::kernels::cuda
