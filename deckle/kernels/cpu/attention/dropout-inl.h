// Which probabilities survive: the frozen, position-keyed Philox contract of docs/attention.md, a 16 x 16 block at a time.

#if defined(DECKLE_ATTENTION_DROPOUT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef DECKLE_ATTENTION_DROPOUT_INL_H_
#undef DECKLE_ATTENTION_DROPOUT_INL_H_
#else
#define DECKLE_ATTENTION_DROPOUT_INL_H_
#endif

#include <cstdint>

#include "deckle/base/philox.h"
#include "deckle/kernels/args/attention.h"
#include "deckle/kernels/cpu/attention/matmul-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace deckle::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
/// Low and high halves of the products of 32-bit lanes.
template <class D, class V>
HWY_INLINE void multiply(D d, V a, V b, V& low, V& high) {
  const hn::RepartitionToWide<D> wide;
  const auto even = hn::MulEven(a, b), odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
}
#endif

/// The 16 calls (a, c) of one 16 x 16 block, seven rounds each: words[word][a * 4 + c].
HWY_NOINLINE inline void philox_block(uint32_t block_row, uint32_t block_column, uint32_t head, uint32_t sequence, uint32_t key0, uint32_t key1,
                                      uint32_t (*HWY_RESTRICT words)[16]) {
#if HWY_TARGET == HWY_SCALAR
  for (uint32_t lane = 0; lane < 16; ++lane) {
    const auto call = Philox<7>::generate({block_row, block_column, head << 4 | lane, sequence}, key0, key1);
    for (int word = 0; word < 4; ++word) words[word][lane] = call[word];
  }
#else
  const hn::CappedTag<uint32_t, 16> d;
  const auto multiplier0 = hn::Set(d, 0xD2511F53u), multiplier1 = hn::Set(d, 0xCD9E8D57u);
  for (size_t first = 0; first < 16; first += hn::Lanes(d)) {
    auto c0 = hn::Set(d, block_row), c1 = hn::Set(d, block_column), c2 = hn::Iota(d, head << 4 | static_cast<uint32_t>(first)), c3 = hn::Set(d, sequence);
    for (uint32_t round = 0; round < 7; ++round) {
      auto low0 = c0, high0 = c0, low1 = c2, high1 = c2;
      multiply(d, c0, multiplier0, low0, high0);
      multiply(d, c2, multiplier1, low1, high1);
      c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, key0 + round * 0x9E3779B9u));
      c1 = low1;
      c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, key1 + round * 0xBB67AE85u));
      c3 = low0;
    }
    hn::Store(c0, d, words[0] + first);
    hn::Store(c1, d, words[1] + first);
    hn::Store(c2, d, words[2] + first);
    hn::Store(c3, d, words[3] + first);
  }
#endif
}

/// The dropout of one head of one sequence.
class Dropout {
 public:
  Dropout() = default;
  Dropout(const AttentionDropout& d, int64_t sequence, int64_t head)
      : threshold_(d.threshold), sequence_(static_cast<uint32_t>(sequence + d.first_sequence)), head_(static_cast<uint32_t>(head + d.first_head)),
        first_row_(d.first_row), first_column_(d.first_column) {
    if (threshold_ == 0) return;
    const auto key = Philox<10>::generate({static_cast<uint32_t>(d.offset), static_cast<uint32_t>(d.offset >> 32), 0x44524F50u, 0},
                                          static_cast<uint32_t>(d.seed), static_cast<uint32_t>(d.seed >> 32));
    key0_ = key[0];
    key1_ = key[1];
  }

  bool on() const { return threshold_ != 0; }

  /// What survivors are multiplied by; 0 if nothing survives.
  static double factor(const AttentionDropout& d) { return d.threshold == 256 ? 0.0 : 256.0 / (256 - d.threshold); }

  /// keep[j * stride + i] = 1 or 0 for rows [row, row + rows) and keys [key, key + keys).
  HWY_NOINLINE void tile(int64_t row, int64_t rows, int64_t key, int64_t keys, uint8_t* HWY_RESTRICT keep, int64_t stride) const {
    const int64_t row_end = row + first_row_ + rows, key_end = key + first_column_ + keys;
    alignas(64) uint32_t words[4][16];
    for (int64_t block_key = (key + first_column_) & ~int64_t{15}; block_key < key_end; block_key += 16) {
      for (int64_t block_row = (row + first_row_) & ~int64_t{15}; block_row < row_end; block_row += 16) {
        philox_block(static_cast<uint32_t>(block_row >> 4), static_cast<uint32_t>(block_key >> 4), head_, sequence_, key0_, key1_, words);
        const int64_t j_begin = std::max<int64_t>(0, key + first_column_ - block_key), j_end = std::min<int64_t>(16, key_end - block_key);
        const int64_t i_begin = std::max<int64_t>(0, row + first_row_ - block_row), i_end = std::min<int64_t>(16, row_end - block_row);
        for (int64_t j = j_begin; j < j_end; ++j) {
          // Bytes of key j: word (i & 1) + 2 (j & 1), call ((i & 7) >> 1, (j & 7) >> 1), byte ((i >> 3) & 1) + 2 ((j >> 3) & 1).
          uint8_t column[16];
          const int shift = 16 * static_cast<int>((j >> 3) & 1);
          const uint32_t* even = words[2 * (j & 1)] + ((j & 7) >> 1);
          const uint32_t* odd = words[2 * (j & 1) + 1] + ((j & 7) >> 1);
          for (int a = 0; a < 4; ++a) {
            const uint32_t from_even = even[4 * a] >> shift, from_odd = odd[4 * a] >> shift;
            column[2 * a] = static_cast<uint8_t>(from_even);
            column[2 * a + 1] = static_cast<uint8_t>(from_odd);
            column[2 * a + 8] = static_cast<uint8_t>(from_even >> 8);
            column[2 * a + 9] = static_cast<uint8_t>(from_odd >> 8);
          }
          uint8_t* to = keep + (block_key + j - key - first_column_) * stride + (block_row - row - first_row_);
          for (int64_t i = i_begin; i < i_end; ++i) to[i] = column[i] >= threshold_;
        }
      }
    }
  }

 private:
  int threshold_ = 0;
  uint32_t sequence_ = 0, head_ = 0, key0_ = 0, key1_ = 0;
  int64_t first_row_ = 0, first_column_ = 0;
};

/// tile[j, lane] *= keep ? factor : 0.
template <typename T>
HWY_NOINLINE void drop(T* HWY_RESTRICT tile, int64_t stride, int64_t keys, int64_t lanes, const uint8_t* HWY_RESTRICT keep, T factor) {
  for (int64_t j = 0; j < keys; ++j) {
    for (int64_t lane = 0; lane < lanes; ++lane) tile[j * stride + lane] = keep[j * kBlock<T> + lane] ? tile[j * stride + lane] * factor : T(0);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace deckle::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif
