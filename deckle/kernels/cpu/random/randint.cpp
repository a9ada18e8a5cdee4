// Uniform integers in [low, high), high - low <= 2^32: the upper half of word * (high - low). The bias is below 2^-32 (high -
// low).

#include <span>

#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/view.h"
#include "deckle/kernels/cpu/random/words.h"

namespace deckle::kernels::cpu {

using namespace random;

void randint(const Context&, int64_t low, int64_t high, std::span<const int64_t>, PhiloxStream stream, const View& result) {
  const auto range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  auto* to = result.ptr<int64_t>();
  for_each_word(stream, result.numel(), [&](int64_t begin, int64_t end, const uint32_t* words) {
    for (int64_t i = begin; i < end; ++i) to[i] = low + static_cast<int64_t>(words[i - begin] * range >> 32);
  });
}

}  // namespace deckle::kernels::cpu
