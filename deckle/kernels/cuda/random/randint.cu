// Uniform integers in [low, high): the bits of the CPU's kernel.
#include <span>

#include "deckle/kernels/cuda/random/philox.cuh"

namespace deckle::kernels::cuda {
namespace {

struct Integers {
  int64_t* data;
  int64_t low;
  uint64_t range;
  __device__ void operator()(int64_t first, const uint32_t* words, int64_t count) const {
    for (int i = 0; i < 4 && first + i < count; ++i) data[first + i] = low + static_cast<int64_t>(words[i] * range >> 32);
  }
};

}  // namespace

void randint(const Context& context, int64_t low, int64_t high, std::span<const int64_t>, PhiloxStream stream,
             const View& result) {
  const auto range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  random::run<1>(context, stream, result.numel(), Integers{result.ptr<int64_t>(), low, range});
}

}  // namespace deckle::kernels::cuda
