// Standard normal, by Box and Muller's transform of two neighbouring words in float64:
//   r = sqrt(-2 ln u), (r cos 2 pi v, r sin 2 pi v), u in (0, 1] by steps of 2^-32, so |x| <= 6.67.
// Scalar on purpose: it initialises parameters once, and the same bits come out on every instruction set.

#include <cmath>
#include <numbers>
#include <span>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/random/words.h"

namespace deckle::kernels::cpu {

using namespace random;

void randn(const CpuContext&, std::span<const int64_t>, DType, PhiloxStream stream, const View& result) {
  visit_floating(result.dtype, [&]<typename T>(TypeTag<T>) {
    T* to = result.ptr<T>();
    const auto rounded = [](double value) {
      if constexpr (std::is_same_v<T, double>)
        return value;
      else
        return T(static_cast<float>(value));
    };
    for_each_word(stream, result.numel(), [&](int64_t begin, int64_t end, const uint32_t* words) {
      for (int64_t i = begin; i < end; i += 2) {
        const double u = (static_cast<double>(words[i - begin]) + 1.0) * 0x1p-32;
        const double angle = static_cast<double>(words[i - begin + 1]) * (0x1p-31 * std::numbers::pi);
        const double radius = std::sqrt(-2.0 * std::log(u));
        to[i] = rounded(radius * std::cos(angle));
        if (i + 1 < end) to[i + 1] = rounded(radius * std::sin(angle));
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
