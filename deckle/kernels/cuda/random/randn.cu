// Standard normal: Box and Muller's transform of the CPU's kernel, of the same words.
#include <span>

#include "deckle/kernels/cuda/random/philox.cuh"

namespace deckle::kernels::cuda {
namespace {

using random::uniform_of_two;

template <int kWords>
struct Normal {
  void* data;
  DType dtype;
  __device__ void operator()(int64_t first, const uint32_t* words, int64_t count) const {
    for (int pair = 0; pair < 4 / (2 * kWords); ++pair) {
      const int64_t element = first + 2 * pair;
      if (element >= count) return;
      const uint32_t* const of_pair = words + 2 * kWords * pair;
      const double u = kWords == 2 ? 1.0 - uniform_of_two(of_pair) : (static_cast<double>(of_pair[0]) + 1.0) * 0x1p-32;
      const double turn = kWords == 2 ? uniform_of_two(of_pair + 2) : static_cast<double>(of_pair[1]) * 0x1p-32;
      const double radius = ::sqrt(-2.0 * ::log(u)), angle = turn * (2.0 * 3.14159265358979323846);
      pointwise::store(radius * ::cos(angle), data, dtype, element);
      if (element + 1 < count) pointwise::store(radius * ::sin(angle), data, dtype, element + 1);
    }
  }
};

}  // namespace

void randn(const Context& context, std::span<const int64_t>, DType, PhiloxStream stream, const View& result) {
  if (result.dtype == DType::float64)
    random::run<2>(context, stream, result.numel(), Normal<2>{result.data, result.dtype});
  else
    random::run<1>(context, stream, result.numel(), Normal<1>{result.data, result.dtype});
}

}  // namespace deckle::kernels::cuda
