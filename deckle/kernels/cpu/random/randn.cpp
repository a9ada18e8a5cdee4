// Standard normal, by the Box-Muller transform of two adjacent uniform numbers in float64:
//   r = sqrt(-2 ln u), (r cos 2 pi v, r sin 2 pi v), u in (0, 1] by steps of 2^-32, so |x| <= 6.67; for float64 results u and v
// take two words each, by steps of 2^-53, so |x| <= 8.58.
// Scalar on purpose: it initialises parameters once, and the same bits come out on every instruction set.

#include <cmath>
#include <numbers>
#include <span>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/random/words.h"

namespace deckle::kernels::cpu {

using namespace random;

void randn(const Context&, std::span<const int64_t>, DType, PhiloxStream stream, const View& result) {
  visit_floating(result.dtype, [&]<typename T>(TypeTag<T>) {
    T* to = result.ptr<T>();
    const auto rounded = [](double value) {
      if constexpr (std::is_same_v<T, double>)
        return value;
      else
        return T(static_cast<float>(value));
    };
    constexpr int64_t kWords = std::is_same_v<T, double> ? 2 : 1;  // of one element
    const int64_t count = result.numel();
    for_each_word(stream, kWords * count, [&](int64_t begin, int64_t end, const uint32_t* words) {
      for (int64_t i = begin; i < end; i += 2 * kWords) {  // the words of a pair stand in one block of four
        const uint32_t* const pair = words + (i - begin);
        const double u = kWords == 2 ? 1.0 - uniform_of_two(pair) : (static_cast<double>(pair[0]) + 1.0) * 0x1p-32;
        const double turn = kWords == 2 ? uniform_of_two(pair + 2) : static_cast<double>(pair[1]) * 0x1p-32;
        const double radius = std::sqrt(-2.0 * std::log(u)), angle = turn * (2.0 * std::numbers::pi);
        const int64_t element = i / kWords;
        to[element] = rounded(radius * std::cos(angle));
        if (element + 1 < count) to[element + 1] = rounded(radius * std::sin(angle));
      }
    });
  });
}

}  // namespace deckle::kernels::cpu
