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

/// The 16 calls (a, c) of one 16 x 16 block, seven rounds each: words[word][a * 4 + c]. Plain loops over 16 lanes, which the
/// compiler turns into one vector each.
HWY_NOINLINE inline void philox_block(uint32_t block_row, uint32_t block_column, uint32_t head, uint32_t sequence, uint32_t key0, uint32_t key1,
                               uint32_t (*HWY_RESTRICT words)[16]) {
  alignas(64) uint32_t c0[16], c1[16], c2[16], c3[16];
  for (uint32_t lane = 0; lane < 16; ++lane) c0[lane] = block_row, c1[lane] = block_column, c2[lane] = head << 4 | lane, c3[lane] = sequence;
  for (int round = 0; round < 7; ++round) {
    for (int lane = 0; lane < 16; ++lane) {
      const uint64_t product0 = uint64_t{0xD2511F53u} * c0[lane], product1 = uint64_t{0xCD9E8D57u} * c2[lane];
      c0[lane] = static_cast<uint32_t>(product1 >> 32) ^ c1[lane] ^ key0;
      c1[lane] = static_cast<uint32_t>(product1);
      c2[lane] = static_cast<uint32_t>(product0 >> 32) ^ c3[lane] ^ key1;
      c3[lane] = static_cast<uint32_t>(product0);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int lane = 0; lane < 16; ++lane) words[0][lane] = c0[lane], words[1][lane] = c1[lane], words[2][lane] = c2[lane], words[3][lane] = c3[lane];
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
