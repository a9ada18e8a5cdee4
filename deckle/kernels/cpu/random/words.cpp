// Blocks of Philox4x32-10, one per lane.                      Ten rounds of two 32 x 32 -> 64 bit products for four words.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/random/words.cpp"
#include "deckle/kernels/cpu/simd/targets.h"
// After targets.h.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "deckle/base/philox.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::random::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;
using Lanes = hn::ScalableTag<uint32_t>;
using Words = hn::Vec<Lanes>;

struct Product {
  Words high, low;
};

HWY_INLINE Product multiply(Words a, uint32_t factor) {
  const Lanes d;
  const hn::Repartition<uint64_t, Lanes> wide;
  const Words b = hn::Set(d, factor);
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
  return {hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even))), hn::Mul(a, b)};
}

// As many blocks as fill vectors; returns how many.
int64_t make_vectors(const PhiloxStream& stream, uint64_t first, int64_t blocks, uint32_t* words) {
  const auto seed0 = static_cast<uint32_t>(stream.seed), seed1 = static_cast<uint32_t>(stream.seed >> 32);
  int64_t block = 0;
  const Lanes d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; block + lanes <= blocks; block += lanes) {
    const uint64_t counter = stream.offset + first + static_cast<uint64_t>(block);
    const auto low = static_cast<uint32_t>(counter);
    if (low > UINT32_MAX - static_cast<uint32_t>(lanes)) break;  // a carry inside the vector: one by one
    Words c0 = hn::Iota(d, low), c1 = hn::Set(d, static_cast<uint32_t>(counter >> 32)), c2 = hn::Zero(d), c3 = hn::Zero(d);
    uint32_t key0 = seed0, key1 = seed1;
    for (int round = 0; round < 10; ++round) {
      const Product p0 = multiply(c0, 0xD2511F53u), p1 = multiply(c2, 0xCD9E8D57u);
      c0 = hn::Xor(hn::Xor(p1.high, c1), hn::Set(d, key0));
      c1 = p1.low;
      c2 = hn::Xor(hn::Xor(p0.high, c3), hn::Set(d, key1));
      c3 = p0.low;
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    hn::StoreInterleaved4(c0, c1, c2, c3, d, words + 4 * block);
  }
  return block;
}
#else
int64_t make_vectors(const PhiloxStream&, uint64_t, int64_t, uint32_t*) { return 0; }
#endif

void make_words(const PhiloxStream& stream, uint64_t first, int64_t blocks, uint32_t* words) {
  int64_t block = make_vectors(stream, first, blocks, words);
  for (; block < blocks; ++block) {
    const Philox<10>::Words four = stream.block(first + static_cast<uint64_t>(block));
    for (int64_t word = 0; word < 4; ++word) words[4 * block + word] = four[static_cast<size_t>(word)];
  }
}

}  // namespace deckle::kernels::cpu::random::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "deckle/kernels/cpu/random/words.h"

namespace deckle::kernels::cpu::random {
namespace {
HWY_EXPORT(make_words);
}

void philox_words(const PhiloxStream& stream, uint64_t first, int64_t blocks, uint32_t* words) {
  DECKLE_SIMD(make_words)(stream, first, blocks, words);
}

}  // namespace deckle::kernels::cpu::random
#endif
