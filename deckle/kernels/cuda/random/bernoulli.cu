// bernoulli with the CPU's bits: 1 where the element's word, as a fraction, is below its probability. What is no probability is
// an Error at the next synchronisation.
#include "deckle/kernels/cuda/pointwise/report.cuh"
#include "deckle/kernels/cuda/random/philox.cuh"

namespace deckle::kernels::cuda {
namespace {

struct Bernoulli {
  const void* probability;
  void* to;
  DType dtype;
  deckle::cuda::IndexFault* fault;

  __device__ void operator()(int64_t first, const uint32_t* words, int64_t count) const {
    for (int i = 0; i < 4 && first + i < count; ++i) {
      const double p = pointwise::load<double>(probability, dtype, first + i);
      if (!(p >= 0 && p <= 1)) pointwise::report(fault, deckle::cuda::no_probability, first + i, __double_as_longlong(p));
      const bool chosen = static_cast<double>(words[i]) * 0x1p-32 < p;
      pointwise::store(chosen ? 1.0f : 0.0f, to, dtype, first + i);
    }
  }
};

}  // namespace

void bernoulli(const Context& context, const View& self, PhiloxStream stream, const View& result) {
  random::run<1>(context, stream, result.numel(),
                 Bernoulli{self.data, result.data, self.dtype, deckle::cuda::index_fault(context.device)});
}

}  // namespace deckle::kernels::cuda
