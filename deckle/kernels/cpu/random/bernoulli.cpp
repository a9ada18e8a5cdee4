// result[i] = 1 with probability self[i], else 0. One 32-bit word decides, so probabilities have a resolution of 2^-32.

#include "deckle/base/check.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/random/words.h"

namespace deckle::kernels::cpu {

using namespace random;

void bernoulli(const Context&, const View& self, PhiloxStream stream, const View& result) {
  visit_floating(self.dtype, [&]<typename T>(TypeTag<T>) {
    const T* probability = self.ptr<T>();
    T* to = result.ptr<T>();
    for_each_word(stream, result.numel(), [&](int64_t begin, int64_t end, const uint32_t* words) {
      for (int64_t i = begin; i < end; ++i) {
        const auto p = static_cast<double>(probability[i]);
        check(p >= 0 && p <= 1, "element {} is {} (expected a probability, 0 to 1)", i, p);
        to[i] = T(static_cast<double>(words[i - begin]) * 0x1p-32 < p ? 1.0f : 0.0f);
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
