// Uniform on [0, 1): the upper bits of a word (float64: of two), as many as the dtype's significand holds, so that 1 is never
// drawn.

#include <span>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/random/words.h"

namespace deckle::kernels::cpu {

using namespace random;
namespace {

template <typename T>
T uniform(uint32_t word) {
  if constexpr (std::is_same_v<T, float>)
    return static_cast<float>(word >> 8) * 0x1p-24f;
  else if constexpr (std::is_same_v<T, float16>)
    return T(static_cast<float>(word >> 21) * 0x1p-11f);
  else
    return T(static_cast<float>(word >> 24) * 0x1p-8f);
}

}  // namespace

void rand(const Context&, std::span<const int64_t>, DType, PhiloxStream stream, const View& result) {
  visit_floating(result.dtype, [&]<typename T>(TypeTag<T>) {
    T* to = result.ptr<T>();
    if constexpr (std::is_same_v<T, double>) {
      for_each_word(stream, 2 * result.numel(), [&](int64_t begin, int64_t end, const uint32_t* words) {
        uniform_doubles(words, (end - begin) / 2, to + begin / 2);
      });
    } else {
      for_each_word(stream, result.numel(), [&](int64_t begin, int64_t end, const uint32_t* words) {
        for (int64_t i = begin; i < end; ++i) to[i] = uniform<T>(words[i - begin]);
      });
    }
  });
}

}  // namespace deckle::kernels::cpu
