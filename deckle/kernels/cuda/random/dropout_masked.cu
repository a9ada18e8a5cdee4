// Dropout with the masks of the CPU's kernel.
#include <cmath>

#include "deckle/kernels/cuda/random/philox.cuh"

namespace deckle::kernels::cuda {
namespace {

template <typename T>
struct Dropout {
  const void* from;
  void* to;
  bool* mask;
  DType dtype;
  uint64_t threshold;
  T scale;
  __device__ void operator()(int64_t first, const uint32_t* words, int64_t count) const {
    for (int i = 0; i < 4 && first + i < count; ++i) {
      const bool keep = words[i] >= threshold;
      mask[first + i] = keep;
      pointwise::store(keep ? pointwise::load<T>(from, dtype, first + i) * scale : T(0), to, dtype, first + i);
    }
  }
};

}  // namespace

void dropout_masked(const Context& context, const View& self, double p, PhiloxStream stream, const View& out, const View& mask) {
  const auto threshold = static_cast<uint64_t>(std::ldexp(p, 32));
  const double scale = 1.0 / (1.0 - p);
  if (self.dtype == DType::float64)
    random::run<1>(context, stream, self.numel(),
                   Dropout<double>{self.data, out.data, mask.ptr<bool>(), self.dtype, threshold, scale});
  else
    random::run<1>(context, stream, self.numel(),
                   Dropout<float>{self.data, out.data, mask.ptr<bool>(), self.dtype, threshold, static_cast<float>(scale)});
}

}  // namespace deckle::kernels::cuda
