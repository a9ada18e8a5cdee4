// Blocks of Philox4x32-10, one per lane.                      Ten rounds of two 32 x 32 -> 64 bit products for four words.
//
//   version                                              ns of a word, AVX-512, one thread of Emerald Rapids
//   a word in every lane of 32 bits: shifts and blends         1.04
//   one in every lane of 64 bits, as products leave them       0.65

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "deckle/kernels/cpu/random/words.cpp"
#include "deckle/kernels/cpu/simd/targets.h"
// After targets.h.
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <utility>

#include "deckle/base/philox.h"
#include "deckle/kernels/cpu/random/words.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu::random::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
namespace hn = hwy::HWY_NAMESPACE;
using Wide = hn::ScalableTag<uint64_t>;
using Words = hn::Vec<Wide>;  // a word of each block in the lower halves; the upper ones are anything

HWY_INLINE Words multiply(Words a, uint32_t factor) {
  const hn::Repartition<uint32_t, Wide> narrow;
  return hn::MulEven(hn::BitCast(narrow, a), hn::Set(narrow, factor));
}

// As many blocks as fill four vectors; returns how many. Four hide the products' latency.
int64_t make_vectors(const PhiloxStream& stream, uint64_t first, int64_t blocks, uint32_t* words) {
  constexpr int kVectors = 4;
  int64_t block = 0;
  const Wide d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Words lower = hn::Set(d, uint64_t{0xffffffffu});
  Words key0[10], key1[10];
  for (uint32_t round = 0; round < 10; ++round) {
    key0[round] = hn::Set(d, uint64_t{static_cast<uint32_t>(stream.seed) + round * philox::kStep0});
    key1[round] = hn::Set(d, uint64_t{static_cast<uint32_t>(stream.seed >> 32) + round * philox::kStep1});
  }
  for (; block + kVectors * lanes <= blocks; block += kVectors * lanes) {
    const uint64_t counter = stream.offset + first + static_cast<uint64_t>(block);
    const auto low = static_cast<uint32_t>(counter);
    if (low > UINT32_MAX - static_cast<uint32_t>(kVectors * lanes)) break;  // a carry inside: one by one
    Words c0[kVectors], c1[kVectors], c2[kVectors], c3[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      c0[v] = hn::Iota(d, low + static_cast<uint32_t>(v * lanes));
      c1[v] = hn::Set(d, counter >> 32);
      c2[v] = c3[v] = hn::Zero(d);
    }
    for (int round = 0; round < 10; ++round) {
      for (int v = 0; v < kVectors; ++v) {
        const Words p0 = multiply(c0[v], philox::kFactor0), p1 = multiply(c2[v], philox::kFactor1);
        c0[v] = hn::Xor3(hn::ShiftRight<32>(p1), c1[v], key0[round]);
        c1[v] = p1;
        c2[v] = hn::Xor3(hn::ShiftRight<32>(p0), c3[v], key1[round]);
        c3[v] = p0;
      }
    }
    for (int v = 0; v < kVectors; ++v) {
      const Words front = hn::Or(hn::And(c0[v], lower), hn::ShiftLeft<32>(c1[v]));
      const Words back = hn::Or(hn::And(c2[v], lower), hn::ShiftLeft<32>(c3[v]));
      hn::StoreInterleaved2(front, back, d, reinterpret_cast<uint64_t*>(words + 4 * (block + v * lanes)));
    }
  }
  return block;
}
#else
int64_t make_vectors(const PhiloxStream&, uint64_t, int64_t, uint32_t*) { return 0; }
#endif

namespace {

void make_words(const PhiloxStream& stream, uint64_t first, int64_t blocks, uint32_t* words) {
  int64_t block = make_vectors(stream, first, blocks, words);
  for (; block < blocks; ++block) {
    const Philox<10>::Words four = stream.block(first + static_cast<uint64_t>(block));
    for (int64_t word = 0; word < 4; ++word) words[4 * block + word] = four[static_cast<size_t>(word)];
  }
}

/// Compilers vectorise it.
void make_doubles(const uint32_t* words, int64_t count, double* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = uniform_of_two(words + 2 * i);
}

}  // namespace

const auto& word_table() {
  static constexpr std::pair table(&make_words, &make_doubles);
  return table;
}

}  // namespace deckle::kernels::cpu::random::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace deckle::kernels::cpu::random {
namespace {
HWY_EXPORT(word_table);
}  // namespace

void philox_words(const PhiloxStream& stream, uint64_t first, int64_t blocks, uint32_t* words) {
  DECKLE_SIMD(word_table)().first(stream, first, blocks, words);
}

void uniform_doubles(const uint32_t* words, int64_t count, double* to) { DECKLE_SIMD(word_table)().second(words, count, to); }

}  // namespace deckle::kernels::cpu::random
#endif
