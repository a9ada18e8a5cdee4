// mask[i] = 1 with probability 1 - p; out[i] = self[i] / (1 - p) where mask[i], else 0.
//
// Bytes per element: 4 + 4 + 1 (float32); FLOPs: ten Philox rounds for four elements.

#include <cmath>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/random/words.h"

namespace deckle::kernels::cpu {

using namespace random;
namespace {

template <typename T>
using ComputeOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace

void dropout_masked(const Context&, const View& self, double p, PhiloxStream stream, const View& out, const View& mask) {
  const auto threshold = static_cast<uint64_t>(std::ldexp(p, 32));  // p = 1 drops every word
  visit_floating(self.dtype, [&]<typename T>(TypeTag<T>) {
    const auto scale = static_cast<ComputeOf<T>>(1.0 / (1.0 - p));
    const T* from = self.ptr<T>();
    T* to = out.ptr<T>();
    auto* kept = mask.ptr<uint8_t>();
    for_each_word(stream, self.numel(), [&](int64_t begin, int64_t end, const uint32_t* words) {
      for (int64_t i = begin; i < end; ++i) {
        const bool keep = words[i - begin] >= threshold;
        kept[i] = keep;
        to[i] = keep ? T(static_cast<ComputeOf<T>>(from[i]) * scale) : T(0.0f);
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
